//! The pool of page-locked host memory.
