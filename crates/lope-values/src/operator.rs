//! The operators of expressions, each with the word that stored trees have for it.
//!
//! Where CEL and Python differ there are two operators; those of Python are named `Py…`, or exist
//! only in Python. What they do is in `compare`, `arithmetic`, `select` and `py`; logic and loops,
//! which need to leave operands alone, are evaluated by whoever has the tree.

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
