//! Holds consecutive items of a list. A chunk that nobody reads can be packed, which makes it several
//! times smaller. Reading an item unpacks its chunk again.

use std::sync::{Arc, OnceLock};

/// Consecutive items.
#[derive(Debug, Clone)]
pub(super) struct Chunk<T> {
    /// The items, unless they're only packed.
    items: OnceLock<Vec<T>>,
    /// The same items in a compact form, if they were packed.
    packed: Option<Packed<T>>,
}

/// The packed items of a chunk.
#[derive(Debug, Clone)]
struct Packed<T> {
    bytes: Arc<[u8]>,
    /// The approximate size of the items in memory while they aren't packed, in bytes.
    weight: u64,
    unpack: fn(&[u8]) -> Option<Vec<T>>,
}

impl<T> Chunk<T> {
    pub(super) fn new(items: Vec<T>) -> Self {
        Self {
            items: OnceLock::from(items),
            packed: None,
        }
    }

    /// Returns the items. They stay unpacked until the chunk is packed again.
    pub(super) fn items(&self) -> &Vec<T> {
        self.items.get_or_init(|| {
            self.packed
                .as_ref()
                .and_then(Packed::items)
                .unwrap_or_default()
        })
    }

    /// Returns the items for modification.
    pub(super) fn items_mut(&mut self) -> Option<&mut Vec<T>> {
        self.items();
        self.packed = None;
        self.items.get_mut()
    }

    pub(super) fn into_items(self) -> Vec<T> {
        let Self { items, packed } = self;
        items
            .into_inner()
            .or_else(|| packed?.items())
            .unwrap_or_default()
    }
}

impl<T> Packed<T> {
    fn items(&self) -> Option<Vec<T>> {
        (self.unpack)(&self.bytes)
    }
}

#[cfg(feature = "board")]
impl<T: Clone + serde::Serialize + serde::de::DeserializeOwned> Chunk<T> {
    /// Returns the chunk in its packed form, or `None` if it's packed already or can't be. `weight`
    /// is the approximate size of an item in memory, in bytes.
    pub(super) fn packed(&self, weight: impl Fn(&T) -> u64) -> Option<Self> {
        let items = self.items.get()?;
        let packed = self.packed.clone().or_else(|| {
            let plain = postcard::to_stdvec(items).ok()?;
            let packed = Packed {
                bytes: lz4_flex::block::compress_prepend_size(&plain).into(),
                weight: items.iter().map(weight).sum(),
                unpack,
            };
            // What can't be unpacked again must stay.
            let unpacked = packed.items()?;
            (unpacked.len() == items.len()).then_some(packed)
        })?;
        Some(Self {
            items: OnceLock::new(),
            packed: Some(packed),
        })
    }

    /// Returns how many bytes less than its items the chunk takes in memory.
    pub(super) fn saves(&self) -> u64 {
        let packed = self.packed.as_ref().filter(|_| self.items.get().is_none());
        packed.map_or(0, |packed| {
            packed.weight.saturating_sub(packed.bytes.len() as u64)
        })
    }
}

#[cfg(feature = "board")]
fn unpack<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<Vec<T>> {
    let plain = lz4_flex::block::decompress_size_prepended(bytes).ok()?;
    postcard::from_bytes(&plain).ok()
}
