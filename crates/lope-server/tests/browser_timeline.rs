//! The timeline and the graph of a run under a pointer: what is drawn over is what is shown next, and a
//! block that is clicked on is folded.

use super::fixture::Ground;
use super::fixture::browser::{Browser, wanted};

const ROUNDS: &str = "name: rounds
steps:
  many:
    each: \"${{ range(100) }}\"
    as: n
    parallel: 4
    steps:
      one: { js: \"({ n }) => n\", with: { n: \"${{ n }}\" } }
  pause: { sleep: 30ms, needs: [many] }
  done: { return: null, needs: [pause] }
";

/// Draws over the right half of the first row of bars.
const BRUSH: &str = "const row = document.querySelector('.timeline svg.bars');
    const box = row.getBoundingClientRect();
    const told = (kind, share) => row.dispatchEvent(new PointerEvent(kind, {
        bubbles: true, button: 0, pointerType: 'mouse', clientX: box.left + share * box.width, clientY: box.top + 5 }));
    told('pointerdown', 0.5); told('pointermove', 0.7);
    const seen = document.querySelector('.timeline .brush').getBoundingClientRect();
    const covers = Math.abs(seen.left - box.left - box.width / 2) < 2 && Math.abs(seen.width - box.width / 5) < 2;
    told('pointermove', 1); told('pointerup', 1);
    return covers;";

const SHOWN: &str =
    "const { from, to } = document.querySelector('.timeline').dataset; return `${from}-${to}`";
const FOLD: &str = "document.querySelector('[data-step=many] > .box').dispatchEvent(new MouseEvent('click', { bubbles: true })); return true";

async fn shown(browser: &Browser) -> (i64, i64) {
    let text = browser.script(SHOWN).await;
    let (from, to) = text.as_str().unwrap().split_once('-').unwrap();
    (from.parse().unwrap(), to.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stretch_of_time_is_drawn_over_and_a_block_is_folded() {
    if !wanted() {
        return;
    }
    let ground = Ground::open().await;
    ground.deploy(ROUNDS).await;
    let run = ground.start("rounds", serde_json::Value::Null).await;
    assert_eq!(ground.ended(&run).await["status"], "completed");
    let browser = Browser::open(ground.server.address()).await;
    browser.go(&format!("/runs/{run}")).await;
    browser.sees("Completed in").await;
    let (from, whole) = shown(&browser).await;
    assert_eq!(from, 0);

    assert_eq!(
        browser.script(BRUSH).await,
        true,
        "what is drawn over is seen"
    );
    browser.sees("Whole run").await;
    let (from, to) = shown(&browser).await;
    assert!(
        (from - whole / 2).abs() <= 1 && to == whole,
        "{from} to {to} of {whole}"
    );

    assert!(browser.has("[data-step=many].holder").await);
    browser.script(FOLD).await;
    browser.finds("[data-step=many].folded").await;
    assert_eq!(shown(&browser).await, (from, to), "the other choice stays");
    browser.script(FOLD).await;
    browser.finds("[data-step=many].holder").await;

    browser
        .click("nav[aria-label='Time shown'] a:last-child")
        .await;
    browser
        .finds(&format!(".timeline[data-from='0'][data-to='{whole}']"))
        .await;
    browser.close().await;
    ground.close().await;
}
