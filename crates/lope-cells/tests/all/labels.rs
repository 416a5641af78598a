//! What people call documents, in place of their ids.

use lope_cells::labels::CellLabels;
use lope_cells::{CellAddress, EntityId, Json, Spaces};

#[test]
fn ids_are_replaced_wherever_they_stand_and_what_is_unknown_stays() {
    let at = CellAddress::parse("home/till/n").unwrap();
    let mut labels = CellLabels::default();
    labels.insert(&at.id, "till".to_owned());
    let text = format!("node {}/0 of:abc changed {at}: of:{{}}", at.id);
    assert_eq!(
        labels.text(&text),
        "node till/0 of:abc changed home/till/n: of:{}"
    );
    assert_eq!(labels.cell(&at), "home/till/n");
    let other = CellAddress::parse("home/of:abc/x").unwrap();
    assert_eq!(labels.cell(&other), "home/of:abc/x");
}

#[test]
fn what_links_lead_to_is_called_by_the_way_unless_it_has_a_name_of_its_own() {
    let mut spaces = Spaces::default();
    let mut transaction = spaces.begin();
    let link = |id: &str| format!(r#"{{"/": {{"link@1": {{"id": "{id}"}}}}}}"#);
    let all = format!("[{}, {}, {}]", link("of:a"), link("of:b"), link("of:c"));
    let at = CellAddress::parse("home/sheet").unwrap();
    transaction
        .set(&at.key("all"), &Json::parse(&all).unwrap())
        .unwrap();
    spaces.commit(transaction).unwrap();
    let id = |id: &str| id.parse::<EntityId>().unwrap();
    let mut labels = CellLabels::default();
    labels.add_seen_from(&at, spaces.snapshot(), |_| true);
    assert_eq!(
        labels.document(&id("of:a")),
        "of:a",
        "nobody knows the sheet"
    );
    labels.insert(&at.id, "sheet".to_owned());
    labels.insert(&id("of:b"), "b".to_owned());
    labels.add_seen_from(&at, spaces.snapshot(), |meant| *meant != id("of:c"));
    let told = ["of:a", "of:b", "of:c"].map(|it| labels.document(&id(it)));
    assert_eq!(told, ["sheet/all/0", "b", "of:c"]);
}
