//! Copies of a test program in processes of their own: started, waited for, ended. Nothing here
//! waits for ever.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Longest wait for a child to say something, or to end.
const PATIENCE: Duration = Duration::from_mins(5);

/// Start a process and wait until it says this. It has an input that it may read until it is to
/// stop.
pub(crate) fn start(command: &mut Command, until: &str) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (tell, told) = channel();
    let wanted = until.to_owned();
    // Whatever it says after that is not of interest, but must not block it.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains(&wanted) {
                let _ = tell.send(());
            }
        }
    });
    if told.recv_timeout(PATIENCE).is_err() {
        let _ = child.kill();
        panic!("the child does not say '{until}'");
    }
    child
}

/// Close the input of a process and wait until it has ended well.
pub(crate) fn stop(mut child: Child) {
    drop(child.stdin.take());
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait()));
    let ended = told
        .recv_timeout(PATIENCE)
        .expect("the child ends when its input does");
    assert!(ended.unwrap().success());
}
