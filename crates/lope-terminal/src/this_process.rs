//! The process that a command was typed into, while a server does it: what the server says is
//! printed, what it asks for is given if the command line names it, and nothing else.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use lope_remote::{ATTACHMENT_MAX, Attached, CallError, Need, OrderGiver, OutputFile};

use crate::picture::{Picture, stand};

/// What the compiler of Python says about a module that these words name, if a need asks for it.
pub type Compile = Box<dyn FnMut(&[String], &Need) -> Option<Attached>>;

/// The process that the command was typed into.
pub struct ThisProcess {
    words: Vec<String>,
    compile: Compile,
    /// The file that is written now.
    file: Option<(String, File)>,
    /// What is drawn over and over.
    picture: Option<Picture>,
}

impl fmt::Debug for ThisProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThisProcess({:?})", self.words)
    }
}

impl ThisProcess {
    /// With the words that were typed.
    pub fn new(words: Vec<String>, compile: Compile) -> Self {
        Self {
            words,
            compile,
            file: None,
            picture: None,
        }
    }

    /// Was it typed? A server is given nothing else, and writes nothing else.
    fn names(&self, path: &str) -> bool {
        self.words.iter().any(|word| {
            let value = word.split_once('=').map_or("", |(_, value)| value);
            [word.as_str(), value]
                .iter()
                .any(|text| *text == path || text.strip_prefix('@') == Some(path))
        })
    }

    fn read(&self, need: &Need) -> io::Result<Vec<u8>> {
        match need {
            Need::Stdin if self.words.iter().any(|word| is_stdin(word)) => some_of(io::stdin()),
            Need::File(path) if self.names(path) => some_of(File::open(path)?),
            Need::Stdin | Need::File(_) | Need::Python { .. } => {
                Err(io::Error::other("the command line does not name it"))
            }
        }
    }
}

fn is_stdin(word: &str) -> bool {
    word == "-" || word.ends_with("=-")
}

fn some_of(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(ATTACHMENT_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > ATTACHMENT_MAX {
        let message =
            format!("it has more than {ATTACHMENT_MAX} bytes, which a server does not take");
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}

impl OrderGiver for ThisProcess {
    fn out(&mut self, text: &str) {
        // A closed pipe is the reader's decision, not a failure of ours.
        let _ = anstream::stdout().write_all(text.as_bytes());
    }

    fn out_bytes(&mut self, bytes: &[u8]) {
        let _ = io::stdout().write_all(bytes);
    }

    fn err(&mut self, text: &str) {
        match &self.picture {
            Some(picture) => picture.say(text.strip_suffix('\n').unwrap_or(text)),
            None => drop(anstream::stderr().write_all(text.as_bytes())),
        }
    }

    fn picture(&mut self, lines: &[String], is_last: bool) {
        match (is_last, self.picture.take()) {
            (true, Some(picture)) => picture.end(lines),
            (true, None) => stand(lines),
            (false, known) => {
                self.picture = known.or_else(Picture::begin);
                if let Some(picture) = &mut self.picture {
                    picture.draw(lines);
                }
            }
        }
    }

    fn file(&mut self, file: &OutputFile) -> Result<(), CallError> {
        let unwritten = |message: String, hint: Option<String>, exists: bool| {
            Err(CallError::Unwritten {
                message,
                hint,
                exists,
            })
        };
        if !self.names(&file.path) {
            let message = format!(
                "the server wants to write '{}', which was not asked for",
                file.path
            );
            return Err(CallError::Broken(message));
        }
        let path = Path::new(&file.path);
        let made = if file.is_new {
            File::create_new(path)
        } else {
            File::create(path)
        };
        match made {
            Ok(made) => {
                self.file = Some((file.path.clone(), made));
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => unwritten(
                format!("{} exists already", file.path),
                file.hint.clone(),
                true,
            ),
            Err(error) => unwritten(format!("{}: {error}", file.path), None, false),
        }
    }

    fn piece(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        let Some((path, file)) = &mut self.file else {
            return Err(CallError::Broken(
                "the server sends a piece of no file".to_owned(),
            ));
        };
        file.write_all(bytes).map_err(|error| CallError::Unwritten {
            message: format!("{path}: {error}"),
            hint: None,
            exists: false,
        })
    }

    fn answer(&mut self, need: &Need) -> Attached {
        if let Some(compiled) = (self.compile)(&self.words, need) {
            return compiled;
        }
        match self.read(need) {
            Ok(bytes) => Attached::Bytes(bytes),
            Err(error) => Attached::Nothing {
                message: error.to_string(),
                hint: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_given_only_what_was_typed() {
        let words = "start a.yaml --input=@in.json --payload @p -".split(' ');
        let words = words.map(str::to_owned).collect();
        let giver = ThisProcess::new(words, Box::new(|_, _| None));
        assert!(["a.yaml", "in.json", "p"].iter().all(|it| giver.names(it)));
        assert!(!giver.names("b.yaml") && !giver.names("yaml"));
        assert!(giver.words.iter().any(|word| is_stdin(word)));
    }
}
