//! dedupe
