//! `cargo xtask`: the project's own commands.

fn main() {
    println!("usage: cargo xtask <command>");
}
