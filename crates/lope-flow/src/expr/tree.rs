//! The tree of an expression. Both front ends meet here: CEL text is parsed into it, Python source is compiled into it.
//!
//! There are no modes: where CEL and Python differ the tree has distinct operators (those of Python are named `Py…`,
//! or exist only in Python). Names come in as text and may be given slots by the law. Positions are kept for messages
//! and graphs; two trees that differ in positions alone are equal. How a tree is stored is in `wire`, how it is written
//! for people in `print`; what it means is in `eval`.

use std::fmt;
use std::sync::Arc;

use lope_model::Value;

use super::functions::Function;

/// An expression: a node and where it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub node: Node,
    pub at: At,
}

/// Where something was written: line and column from 1, or nowhere. Never part of what an expression *is*, so any two
/// are equal.
#[derive(Clone, Copy, Default)]
pub struct At {
    pub line: u32,
    pub column: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    Literal(Value),
    Name(Name),
    /// `secrets.NAME`: an opaque reference that only dispatch arguments may hold.
    Secret(Arc<str>),
    /// `a.b`: an entry of a map, or a field of a tagged value.
    Field(Box<Expr>, Arc<str>),
    /// `has(a.b)`.
    Has(Box<Expr>, Arc<str>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<(Expr, Expr)>),
    /// Two or more operands of one `&&`, `||`, `and`, `or`.
    Logic(Logic, Vec<Expr>),
    /// `c ? a : b`; the condition is a bool (Python's is wrapped in `Truth`).
    Choice(Box<(Expr, Expr, Expr)>),
    /// Python's `a < b <= c`: one operator fewer than operands, each operand evaluated once.
    Chain(Vec<Expr>, Vec<Binary>),
    List(Vec<Expr>),
    /// A map with text keys.
    Map(Vec<(Expr, Expr)>),
    /// Parts put together as text, as in a template; a secret among them makes it secret.
    Text(Vec<Expr>),
    Call(Function, Vec<Expr>),
    Each(Box<Each>),
    Let(Box<Let>),
}

/// A name, and the slot that the law may have given it.
#[derive(Clone)]
pub struct Name {
    pub text: Arc<str>,
    pub slot: Option<u32>,
}

/// One value per element of `over` (a list, or a map's keys) for which `when` holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Each {
    pub kind: EachKind,
    pub target: Target,
    pub over: Expr,
    pub when: Option<Expr>,
    pub body: Expr,
}

/// `body` with the names of `target` bound to `value`.
#[derive(Clone, PartialEq, Debug)]
pub struct Let {
    pub target: Target,
    pub value: Expr,
    pub body: Expr,
}

/// What a value is bound to: a name, or its parts to several (Python's unpacking; at most one is starred).
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    Name(Arc<str>),
    Star(Arc<str>),
    Parts(Vec<Target>),
}

/// Declares an enum of operators with the word each has in stored trees.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $($(#[$note])* $variant,)* }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

words!(
    /// What an `Each` makes of its bodies.
    EachKind {
        /// A list of the bodies.
        List = "list",
        /// The bodies are lists, put end to end (a comprehension with several `for`).
        Flat = "flat",
        /// The elements whose body is true.
        Filter = "filter",
        /// CEL's: false if any body is false, else the error of one that failed, else true.
        All = "all",
        /// CEL's: true if any body is true, else the error of one that failed, else false.
        Exists = "exists",
        /// Exactly one body is true.
        ExistsOne = "exists_one",
        /// The elements, ordered by their bodies; equal ones keep their order.
        SortBy = "sort_by",
        /// A map from the bodies, which are texts, to the lists of their elements.
        GroupBy = "group_by",
        /// Python's: stops at the first body that is not true.
        PyAll = "py.all",
        /// Python's: stops at the first body that is true.
        PyAny = "py.any",
    }
);

words!(
    Logic {
        /// CEL's `&&`: false if any operand is false, whatever the others are.
        And = "and",
        /// CEL's `||`: true if any operand is true, whatever the others are.
        Or = "or",
        /// Python's: the first operand that is not true, else the last.
        PyAnd = "py.and",
        /// Python's: the first operand that is true, else the last.
        PyOr = "py.or",
    }
);

words!(
    Unary {
        /// Of a bool.
        Not = "not",
        Neg = "neg",
        /// Python's truth of any value, as a bool.
        Truth = "truth",
        /// Python's `not`.
        PyNot = "py.not",
        PyNeg = "py.neg",
        PyPos = "py.pos",
        PyInvert = "py.invert",
    }
);

words!(
    Binary {
        Add = "add",
        Sub = "sub",
        Mul = "mul",
        /// Of ints: truncates. With a float: true division.
        Div = "div",
        /// Sign of the left operand.
        Rem = "rem",
        Eq = "eq",
        Ne = "ne",
        Lt = "lt",
        Le = "le",
        Gt = "gt",
        Ge = "ge",
        In = "in",
        /// Strict: from 0, below the length; or a key that exists.
        Index = "index",
        PyAdd = "py.add",
        PySub = "py.sub",
        PyMul = "py.mul",
        /// Python's `/`.
        TrueDiv = "py.truediv",
        /// Python's `//`.
        FloorDiv = "py.floordiv",
        /// Python's `%`: sign of the right operand; formats if the left one is text.
        PyMod = "py.mod",
        Pow = "py.pow",
        PyEq = "py.eq",
        PyNe = "py.ne",
        PyLt = "py.lt",
        PyLe = "py.le",
        PyGt = "py.gt",
        PyGe = "py.ge",
        PyIn = "py.in",
        PyNotIn = "py.not_in",
        Is = "py.is",
        IsNot = "py.is_not",
        /// Python's `a.b`; the name is the right operand.
        Attr = "py.attr",
        /// Negative indexes count from the end.
        PyIndex = "py.index",
        BitAnd = "py.bitand",
        BitOr = "py.bitor",
        BitXor = "py.bitxor",
        Shl = "py.shl",
        Shr = "py.shr",
    }
);

impl Expr {
    pub const fn new(node: Node) -> Self {
        Self { node, at: At::NOWHERE }
    }

    #[must_use]
    pub const fn at(mut self, at: At) -> Self {
        self.at = at;
        self
    }

    pub fn literal(value: impl Into<Value>) -> Self {
        Self::new(Node::Literal(value.into()))
    }

    pub fn name(text: &str) -> Self {
        Self::new(Node::Name(Name { text: text.into(), slot: None }))
    }

    pub fn field(self, name: &str) -> Self {
        Self::new(Node::Field(Box::new(self), name.into()))
    }

    pub fn unary(operator: Unary, operand: Self) -> Self {
        Self::new(Node::Unary(operator, Box::new(operand)))
    }

    pub fn binary(operator: Binary, left: Self, right: Self) -> Self {
        Self::new(Node::Binary(operator, Box::new((left, right))))
    }

    /// The value, if the expression is nothing but one.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.node {
            Node::Literal(value) => Some(value),
            _ => None,
        }
    }
}

impl At {
    pub const NOWHERE: Self = Self { line: 0, column: 0 };

    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }

    pub const fn is_known(self) -> bool {
        self.line > 0
    }
}

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for At {}

impl fmt::Debug for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Slots are the law's business: two names are equal if their texts are.
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Target {
    /// Calls `visit` with every name bound here, in order.
    pub fn names<'a>(&'a self, visit: &mut dyn FnMut(&'a Arc<str>)) {
        match self {
            Self::Name(name) | Self::Star(name) => visit(name),
            Self::Parts(parts) => parts.iter().for_each(|part| part.names(visit)),
        }
    }
}
