//! What may stand behind the question mark of a path.

/// Something that may stand behind the question mark.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
    pub(crate) about: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParameterKind {
    Text,
    /// May be given several times.
    Texts,
    Count,
    Flag,
}

pub(crate) const fn text(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Text,
        about,
    }
}

pub(crate) const fn texts(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Texts,
        about,
    }
}

pub(crate) const fn count(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Count,
        about,
    }
}

pub(crate) const fn flag(name: &'static str, about: &'static str) -> Parameter {
    Parameter {
        name,
        kind: ParameterKind::Flag,
        about,
    }
}
