//! The stream-ordered device memory pool.
