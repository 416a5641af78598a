//! Lines that are drawn over and over in the same place of the terminal that stderr goes to.

use std::fmt;
use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lope_remote::ScreenSize;
use terminal_size::{Height, Width, terminal_size_of};

use crate::table::shorten;

/// How large a terminal is that does not say so.
const USUAL: ScreenSize = ScreenSize {
    width: 80,
    height: 24,
};

/// Lines on the terminal that stderr goes to.
pub struct Picture {
    screen: MultiProgress,
    bars: Vec<ProgressBar>,
    style: ProgressStyle,
    plain: bool,
}

/// How large the terminal is that stderr goes to; nothing if it goes elsewhere.
pub fn screen_size() -> Option<ScreenSize> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let size = terminal_size_of(std::io::stderr());
    Some(
        size.map_or(USUAL, |(Width(width), Height(height))| ScreenSize {
            width,
            height,
        }),
    )
}

impl Picture {
    /// Nothing if stderr goes to no terminal.
    pub fn begin() -> Option<Self> {
        let target = ProgressDrawTarget::stderr_with_hz(20);
        screen_size().map(|_| Self {
            screen: MultiProgress::with_draw_target(target),
            bars: Vec::new(),
            style: ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            plain: AutoStream::choice(&std::io::stderr()) == ColorChoice::Never,
        })
    }

    pub fn draw(&mut self, lines: &[String]) {
        let width = screen_size().unwrap_or(USUAL).width;
        while self.bars.len() > lines.len() {
            if let Some(bar) = self.bars.pop() {
                self.screen.remove(&bar);
            }
        }
        while self.bars.len() < lines.len() {
            let bar = ProgressBar::no_length().with_style(self.style.clone());
            self.bars.push(self.screen.add(bar));
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_message(fit(line, usize::from(width).saturating_sub(1), self.plain));
        }
    }

    /// A word above the picture.
    pub fn say(&self, text: &str) {
        // Nobody may be reading.
        let _ = self.screen.println(text);
    }

    /// Leave these lines standing.
    pub fn end(self, lines: &[String]) {
        let _ = self.screen.clear();
        self.screen.set_draw_target(ProgressDrawTarget::hidden());
        stand(lines);
    }
}

/// Lines that stay where they are.
pub fn stand(lines: &[String]) {
    for line in lines {
        // Nobody may be reading.
        let _ = writeln!(anstream::stderr(), "{line}");
    }
}

fn fit(line: &str, width: usize, plain: bool) -> String {
    let bare = anstream::adapter::strip_str(line).to_string();
    if plain || bare.chars().count() > width {
        shorten(&bare, width)
    } else {
        line.to_owned()
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Picture({} lines)", self.bars.len())
    }
}
