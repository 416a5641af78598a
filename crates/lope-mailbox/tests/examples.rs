//! The example of the guide runs, and does what the guide says.

#[path = "../examples/order_desk.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod order_desk;

use lope_store::MemoryStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_desk_ships_what_is_paid_and_cancels_the_rest() {
    let store = MemoryStore::open();
    let orders = order_desk::run(&store).await.expect("the desk works");
    let statuses: Vec<&str> = orders.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(
        statuses,
        [
            "shipped",
            "shipped",
            "shipped",
            "cancelled",
            "cancelled",
            "shipped"
        ]
    );
}
