//! Domains: who may take a free extent.
//!
//! A domain is a small number chosen by the caller and nothing more; its bins come into being with its first extent.

/// A set of free extents that only those who name it may take.
///
/// Free extents coalesce only with neighbours of the same domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(u32);

impl Domain {
    /// Free for all. A new range is one free extent of this domain.
    pub const SHARED: Self = Self(0);

    /// How many numbers [`Domain::new`] accepts: a range keeps one word per number in use.
    pub const COUNT: u32 = 1 << 16;

    /// The domain with the caller's number `number`, distinct from [`Domain::SHARED`]. `None` from [`Domain::COUNT`]
    /// on.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < Self::COUNT {
            Some(Self(number + 1))
        } else {
            None
        }
    }

    /// The caller's number, or `None` for [`Domain::SHARED`].
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// Whether this is [`Domain::SHARED`].
    #[must_use]
    pub const fn is_shared(self) -> bool {
        self.0 == 0
    }

    /// Position in a table of domains; also the state word of a free record.
    pub(crate) const fn index(self) -> u32 {
        self.0
    }

    pub(crate) const fn from_index(index: u32) -> Self {
        Self(index)
    }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number() {
            None => f.write_str("Domain::SHARED"),
            Some(number) => write!(f, "Domain({number})"),
        }
    }
}
