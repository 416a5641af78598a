//! The operators of expressions, each with the word that stored trees have for it.
//!
//! What they do is in `compare`, `arithmetic` and `select`; logic and loops, which need to leave
//! operands alone, are evaluated by whoever has the tree.

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
        /// The bodies are lists, put end to end.
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
    }
);

words!(
    Logic {
        /// CEL's `&&`: false if any operand is false, whatever the others are.
        And = "and",
        /// CEL's `||`: true if any operand is true, whatever the others are.
        Or = "or",
    }
);

words!(
    Unary {
        /// Of a bool.
        Not = "not",
        Neg = "neg",
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
    }
);
