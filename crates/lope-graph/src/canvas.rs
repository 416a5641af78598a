//! A grid of characters on which lines join where they meet.

use super::layout::Rect;

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// The characters of a border: corners from the top left clockwise, then horizontal and vertical.
#[derive(Clone, Copy, Debug)]
pub(super) struct Border(pub(super) [char; 6]);

impl Border {
    pub(super) const ITEM: Self = Self(['┌', '┐', '┘', '└', '─', '│']);
    pub(super) const HOLDER: Self = Self(['╭', '╮', '╯', '╰', '─', '│']);
    pub(super) const PANEL: Self = Self(['┌', '┐', '┘', '└', '╌', '╎']);
}

#[derive(Clone, Copy, Debug, Default)]
struct CanvasCell {
    /// Where lines go from here.
    lines: u8,
    /// What is written over the lines.
    sign: Option<char>,
}

#[derive(Debug)]
pub(super) struct Canvas {
    width: usize,
    cells: Vec<CanvasCell>,
}

impl Canvas {
    pub(super) fn new(width: i32, height: i32) -> Self {
        let (width, height) = (width.max(0) as usize, height.max(0) as usize);
        Self {
            width,
            cells: vec![CanvasCell::default(); width * height],
        }
    }

    fn cell(&mut self, x: i32, y: i32) -> Option<&mut CanvasCell> {
        let (x, y) = (usize::try_from(x).ok()?, usize::try_from(y).ok()?);
        if x < self.width {
            self.cells.get_mut(y * self.width + x)
        } else {
            None
        }
    }

    pub(super) fn put(&mut self, x: i32, y: i32, sign: char) {
        if let Some(cell) = self.cell(x, y) {
            cell.sign = Some(sign);
        }
    }

    /// Writes a text; a wide character takes two cells.
    pub(super) fn write(&mut self, x: i32, y: i32, text: &str) {
        let mut x = x;
        for c in text.chars() {
            self.put(x, y, c);
            if is_wide(c) {
                self.put(x + 1, y, '\0');
            }
            x += if is_wide(c) { 2 } else { 1 };
        }
    }

    pub(super) fn border(&mut self, rect: Rect, border: Border) {
        let (right, bottom) = (rect.x + rect.width - 1, rect.y + rect.height - 1);
        let [
            top_left,
            top_right,
            bottom_right,
            bottom_left,
            horizontal,
            vertical,
        ] = border.0;
        for x in rect.x + 1..right {
            self.put(x, rect.y, horizontal);
            self.put(x, bottom, horizontal);
        }
        for y in rect.y + 1..bottom {
            self.put(rect.x, y, vertical);
            self.put(right, y, vertical);
        }
        self.put(rect.x, rect.y, top_left);
        self.put(right, rect.y, top_right);
        self.put(right, bottom, bottom_right);
        self.put(rect.x, bottom, bottom_left);
    }

    /// A line through these corners, which goes on upwards from its first and downwards from its
    /// last.
    pub(super) fn line(&mut self, corners: &[(i32, i32)]) {
        for pair in corners.windows(2) {
            let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
            for y in y1.min(y2)..y1.max(y2) {
                self.join(x1, y, DOWN);
                self.join(x1, y + 1, UP);
            }
            for x in x1.min(x2)..x1.max(x2) {
                self.join(x, y2, RIGHT);
                self.join(x + 1, y2, LEFT);
            }
        }
        corners
            .first()
            .iter()
            .for_each(|(x, y)| self.join(*x, *y, UP));
        corners
            .last()
            .iter()
            .for_each(|(x, y)| self.join(*x, *y, DOWN));
    }

    fn join(&mut self, x: i32, y: i32, line: u8) {
        if let Some(cell) = self.cell(x, y) {
            cell.lines |= line;
        }
    }

    /// The lines of text, without blanks at their ends.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows = self.cells.chunks(self.width.max(1));
        rows.map(|row| {
            let line: String = row
                .iter()
                .map(|cell| cell.sign.unwrap_or_else(|| sign(cell.lines)))
                .collect();
            line.replace('\0', "").trim_end().to_owned()
        })
        .collect()
    }
}

const fn sign(lines: u8) -> char {
    const SIGNS: [char; 16] = [
        ' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼',
    ];
    SIGNS[(lines & 15) as usize]
}

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> i32 {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

/// Does a terminal give the character two columns? East Asian scripts and most pictographs.
fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x115F | 0x2E80..=0x303E | 0x3041..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6 | 0x1F300..=0x1F64F | 0x1F900..=0x1F9FF | 0x20000..=0x3FFFD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_where_they_meet() {
        let mut canvas = Canvas::new(5, 3);
        canvas.line(&[(0, 0), (0, 1), (4, 1), (4, 2)]);
        canvas.line(&[(2, 0), (2, 2)]);
        assert_eq!(canvas.lines(), ["│ │", "╰─┼─╮", "  │ │"]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut canvas = Canvas::new(6, 1);
        canvas.write(0, 0, "日本x");
        assert_eq!(canvas.lines(), ["日本x"]);
        assert_eq!(columns("日本x"), 5);
    }
}
