//! What may stand behind the question mark of a path.

/// Something that may stand behind the question mark.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: ParameterKind,
    pub about: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterKind {
    Text,
    /// May be given several times.
    Texts,
    Count,
    Flag,
}

pub const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Text,
        about,
    }
}

pub const fn texts(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Texts,
        about,
    }
}

pub const fn count(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Count,
        about,
    }
}

pub const fn flag(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Flag,
        about,
    }
}
