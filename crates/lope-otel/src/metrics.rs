//! What a runner counted, from the text that Prometheus reads to the form that collectors take.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

/// One line of a family: labels and a value.
struct TextSample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

/// Every family of a text, as metrics.
pub(crate) fn of_text(text: &str, since: &str, now: &str) -> Vec<Json> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples: BTreeMap<&str, Vec<TextSample<'_>>> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            if let Some((name, kind)) = rest.split_once(' ') {
                kinds.insert(name, kind);
            }
            continue;
        }
        let Some(sample) = sample(line).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let ends = ["_total", "_bucket", "_sum", "_count", ""];
        let mut families = ends.iter().filter_map(|end| sample.name.strip_suffix(end));
        if let Some(family) = families.find(|family| kinds.contains_key(family)) {
            samples.entry(family).or_default().push(sample);
        }
    }
    let told = samples.iter().filter_map(|(name, all)| match kinds[name] {
        "counter" => Some(counter(name, all, since, now)),
        "gauge" => Some(gauge(name, all, now)),
        "histogram" => Some(histogram(name, all, since, now)),
        _ => None,
    });
    told.collect()
}

fn sample(line: &str) -> Option<TextSample<'_>> {
    let (head, value) = match line.split_once('}') {
        Some((head, rest)) => (head, rest.trim()),
        None => line.split_once(' ')?,
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    let (name, labels) = head.split_once('{').unwrap_or((head, ""));
    let labels = labels.split("\",").filter_map(|pair| {
        let (key, value) = pair.split_once("=\"")?;
        Some((key.trim_start_matches(','), value.trim_end_matches('"')))
    });
    Some(TextSample {
        name,
        labels: labels.collect(),
        value,
    })
}

fn attributes(sample: &TextSample<'_>) -> Json {
    let labels = sample.labels.iter().filter(|(key, _)| *key != "le");
    labels
        .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
        .collect()
}

fn counter(name: &str, samples: &[TextSample<'_>], since: &str, now: &str) -> Json {
    let points: Vec<Json> = samples
        .iter()
        .map(|it| json!({ "attributes": attributes(it), "startTimeUnixNano": since, "timeUnixNano": now, "asDouble": it.value }))
        .collect();
    json!({ "name": name, "sum": { "dataPoints": points, "aggregationTemporality": 2, "isMonotonic": true } })
}

fn gauge(name: &str, samples: &[TextSample<'_>], now: &str) -> Json {
    let points: Vec<Json> = samples
        .iter()
        .map(
            |it| json!({ "attributes": attributes(it), "timeUnixNano": now, "asDouble": it.value }),
        )
        .collect();
    json!({ "name": name, "gauge": { "dataPoints": points } })
}

/// Buckets of a text hold all that is below them; those of collectors only their own.
fn histogram(name: &str, samples: &[TextSample<'_>], since: &str, now: &str) -> Json {
    let mut points: BTreeMap<String, Vec<&TextSample<'_>>> = BTreeMap::new();
    for sample in samples {
        let own = attributes(sample).to_string();
        points.entry(own).or_default().push(sample);
    }
    let points = points.values().map(|all| {
        let of = |end: &str| {
            let mut named = all.iter().filter(|it| it.name.ends_with(end));
            named.next().map_or(0.0, |it| it.value)
        };
        let buckets = all.iter().filter(|it| it.name.ends_with("_bucket"));
        let mut bounds = Vec::new();
        let mut counts = Vec::new();
        let mut below = 0.0;
        for bucket in buckets {
            counts.push(whole(bucket.value - below));
            below = bucket.value;
            let bound = bucket.labels.iter().find(|(key, _)| *key == "le");
            bounds.extend(bound.and_then(|(_, text)| text.parse::<f64>().ok()));
        }
        bounds.retain(|bound| bound.is_finite());
        let first = all.first().map(|it| attributes(it));
        json!({
            "attributes": first,
            "startTimeUnixNano": since,
            "timeUnixNano": now,
            "count": whole(of("_count")),
            "sum": of("_sum"),
            "bucketCounts": counts,
            "explicitBounds": bounds,
        })
    });
    let points: Vec<Json> = points.collect();
    json!({ "name": name, "histogram": { "dataPoints": points, "aggregationTemporality": 2 } })
}

/// Whole numbers of 64 bits are texts in JSON.
fn whole(value: f64) -> String {
    format!("{:.0}", value.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_metrics() {
        let text = "# HELP a Things.\n# TYPE a counter\na_total{runner=\"r\",outcome=\"done\"} 3\n\
                    # TYPE g gauge\ng{queue=\"x,y\"} 1.5\n\
                    # TYPE h histogram\nh_sum{runner=\"r\"} 0.3\nh_count{runner=\"r\"} 3\n\
                    h_bucket{le=\"0.1\",runner=\"r\"} 2\nh_bucket{le=\"+Inf\",runner=\"r\"} 3\n# EOF\n";
        let told = of_text(text, "1", "2");
        assert_eq!(told.len(), 3);
        let point = &told[0]["sum"]["dataPoints"][0];
        assert_eq!(point["asDouble"], 3.0);
        assert_eq!(point["attributes"][1]["value"]["stringValue"], "done");
        assert_eq!(told[1]["gauge"]["dataPoints"][0]["asDouble"], 1.5);
        let point = &told[2]["histogram"]["dataPoints"][0];
        assert_eq!(point["bucketCounts"], json!(["2", "1"]));
        assert_eq!(point["explicitBounds"], json!([0.1]));
        assert_eq!((&point["count"], &point["sum"]), (&json!("3"), &json!(0.3)));
    }
}
