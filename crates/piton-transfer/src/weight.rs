//! How much a copy gets of links that it shares with others of its class.

use crate::TransferError;

/// The weight of a copy. Of copies of one class that share a link, one of weight three gets three times what one of
/// weight one gets.
///
/// ```
/// use piton_transfer::CopyWeight;
///
/// assert_eq!(CopyWeight::default(), CopyWeight::new(1)?);
/// assert!(CopyWeight::new(0).is_err());
/// # Ok::<(), piton_transfer::TransferError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CopyWeight(u16);

impl CopyWeight {
    /// The weight of copies for which no weight is given.
    pub const ONE: Self = Self(1);
    /// The largest weight. Links divide evenly among commands, and a leg has at most twice as many commands under
    /// way.
    pub const MOST: Self = Self(8);

    /// A weight from 1 to [`MOST`](Self::MOST).
    ///
    /// # Errors
    /// [`TransferError::Weight`] for any other. A copy of weight zero would never end.
    pub const fn new(weight: u16) -> Result<Self, TransferError> {
        let most = Self::MOST.0;
        if weight == 0 || weight > most {
            return Err(TransferError::Weight { weight, most });
        }
        Ok(Self(weight))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for CopyWeight {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u16> for CopyWeight {
    type Error = TransferError;

    fn try_from(weight: u16) -> Result<Self, TransferError> {
        Self::new(weight)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_from_one_to_eight_and_what_is_not_is_refused_with_the_number() {
        for weight in 1..=8 {
            assert_eq!(CopyWeight::new(weight).unwrap().get(), weight);
        }
        for wrong in [0, 9, u16::MAX] {
            let refused = CopyWeight::try_from(wrong).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("a copy that weighs {wrong}; it may be 1 to 8")
            );
        }
    }
}
