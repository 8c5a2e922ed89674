//! What the kernels of a SPIR-V module take, read from the module itself: drivers say nothing of its arguments (Intel's answers
//! that it does not know).
//!
//! Only types, decorations and the heads of functions are looked at; numbers are those of the *SPIR-V Specification*. What the
//! contract has no word for (memory of a work group, images) makes its kernel one that is left out. A module whose words do not
//! add up is refused here: Intel's driver ends the process over one that was cut short. What is wrong inside of one that adds up
//! is the driver's to say.

use piton_driver::{Access, Parameter, Signature};
use std::collections::HashMap;

/// What a module begins with, as the words of this machine are.
pub(crate) const MAGIC: [u8; 4] = 0x0723_0203_u32.to_ne_bytes();

/// Words before the first instruction.
const HEADER: usize = 5;
/// A kernel, among what a module may be entered by.
const KERNEL: u32 = 6;
/// Storage of values that a function owns: structures are passed so.
const FUNCTION: u32 = 7;
/// Storage that kernels read, and that of device memory.
const BUFFERS: [u32; 2] = [0, 5];
/// What a parameter is decorated with, and what it is then.
const PARAMETER: u32 = 38;
const BY_VALUE: u32 = 2;
const NOT_WRITTEN: u32 = 6;
/// A structure without gaps.
const PACKED: u32 = 10;
/// Sizes past this are no kernel's arguments; what is larger is not multiplied.
const MOST: u32 = 1 << 20;

/// Bytes and alignment.
#[derive(Clone, Copy, Debug)]
struct Layout {
    bytes: u32,
    alignment: u32,
}

#[derive(Clone, Debug)]
enum Type {
    Value(Layout),
    Pointer { storage: u32, to: u32 },
    Function(Vec<u32>),
}

/// What was read of a module.
#[derive(Debug, Default)]
struct Reader {
    types: HashMap<u32, Type>,
    constants: HashMap<u32, u32>,
    /// Names, with the functions that they enter by.
    entries: Vec<(String, u32)>,
    /// Types of functions, and the names of their parameters.
    functions: HashMap<u32, (u32, Vec<u32>)>,
    decorations: Vec<(u32, u32, u32)>,
    /// The function whose head is being read.
    within: u32,
    /// How many functions have an end.
    ends: usize,
}

/// The kernels of a module, each with what it takes; nothing where the words do not add up to a module.
pub(crate) fn kernels(module: &[u8]) -> Option<Vec<(String, Signature)>> {
    let (words, odd) = module.as_chunks();
    let words: Vec<_> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let mut reader = Reader::default();
    let mut rest = words.get(HEADER..).filter(|_| odd.is_empty())?;
    while let Some((first, _)) = rest.split_first() {
        let (count, code) = (*first as usize >> 16, *first & 0xffff);
        let (instruction, behind) = rest.split_at_checked(count)?;
        reader.read(code, instruction.get(1..)?)?;
        rest = behind;
    }
    let known = reader.entries.iter();
    let is_there = |(_, function): &(_, u32)| reader.functions.contains_key(function);
    if reader.ends != reader.functions.len() || known.len() == 0 || !known.clone().all(is_there) {
        return None;
    }
    let signatures =
        known.filter_map(|(name, function)| Some((name.clone(), reader.signature(*function)?)));
    Some(signatures.collect())
}

impl Reader {
    /// Takes note of an instruction; nothing where it makes no sense.
    fn read(&mut self, code: u32, says: &[u32]) -> Option<()> {
        match (code, says) {
            (15, [KERNEL, function, name @ ..]) => self.entries.push((text(name), *function)),
            (71, [target, what, rest @ ..]) => {
                let value = rest.first().copied().unwrap_or(0);
                self.decorations.push((*target, *what, value));
            }
            (43, [_, id, value, ..]) => {
                self.constants.insert(*id, *value);
            }
            (21 | 22, [id, bits, ..]) => self.value(*id, *bits / 8, 1),
            (23, [id, of, count]) => self.vector(*id, *of, *count)?,
            (28, [id, of, count]) => self.array(*id, *of, *count)?,
            (30, [id, members @ ..]) => self.structure(*id, members)?,
            (32, [id, storage, to]) => {
                let (storage, to) = (*storage, *to);
                self.types.insert(*id, Type::Pointer { storage, to });
            }
            (33, [id, _, takes @ ..]) => {
                self.types.insert(*id, Type::Function(takes.to_vec()));
            }
            (54, [_, id, _, of]) => {
                self.within = *id;
                self.functions.insert(*id, (*of, Vec::new()));
            }
            (56, _) => self.ends += 1,
            (55, [_, id]) => self.functions.get_mut(&self.within)?.1.push(*id),
            _ => {}
        }
        Some(())
    }

    /// A value of `count` parts, aligned to the next power of two.
    fn value(&mut self, id: u32, bytes: u32, count: u32) {
        let bytes = bytes.min(MOST).saturating_mul(count.min(MOST));
        let alignment = bytes.clamp(1, MOST).next_power_of_two();
        let layout = Layout { bytes, alignment };
        self.types.insert(id, Type::Value(layout));
    }

    /// A vector of three takes the room of four.
    fn vector(&mut self, id: u32, of: u32, count: u32) -> Option<()> {
        let part = self.layout(of)?;
        self.value(id, part.bytes, if count == 3 { 4 } else { count });
        Some(())
    }

    fn array(&mut self, id: u32, of: u32, count: u32) -> Option<()> {
        let Some(part) = self.layout(of) else {
            return Some(());
        };
        let bytes = part.bytes.checked_mul(*self.constants.get(&count)?)?;
        let layout = Layout { bytes, ..part };
        self.types.insert(id, Type::Value(layout));
        Some(())
    }

    /// Members as C lays them out, or close together. One with a member that has no size here has none either.
    fn structure(&mut self, id: u32, members: &[u32]) -> Option<()> {
        let is_packed = self.decorations.contains(&(id, PACKED, 0));
        let (mut bytes, mut alignment) = (0_u32, 1);
        for member in members {
            let Some(layout) = self.layout(*member) else {
                return Some(());
            };
            let own = if is_packed { 1 } else { layout.alignment };
            bytes = bytes.checked_next_multiple_of(own)?;
            bytes = bytes.checked_add(layout.bytes)?;
            alignment = alignment.max(own);
        }
        let bytes = bytes.checked_next_multiple_of(alignment)?;
        let layout = Layout { bytes, alignment };
        self.types.insert(id, Type::Value(layout));
        Some(())
    }

    fn layout(&self, id: u32) -> Option<Layout> {
        match self.types.get(&id)? {
            Type::Value(layout) => Some(*layout),
            Type::Pointer { .. } => Some(Layout {
                bytes: 8,
                alignment: 8,
            }),
            Type::Function(_) => None,
        }
    }

    fn is(&self, parameter: u32, what: u32) -> bool {
        self.decorations.contains(&(parameter, PARAMETER, what))
    }

    /// What a function takes; nothing where the contract has no word for it.
    fn signature(&self, function: u32) -> Option<Signature> {
        let (of, names) = self.functions.get(&function)?;
        let Type::Function(takes) = self.types.get(of)? else {
            return None;
        };
        let parameters = takes.iter().zip(names);
        let parameters = parameters.map(|(of, name)| self.parameter(*of, *name));
        let parameters: Vec<_> = parameters.collect::<Option<_>>()?;
        (parameters.len() == takes.len()).then(|| Signature::new(parameters))
    }

    fn parameter(&self, of: u32, name: u32) -> Option<Parameter> {
        match self.types.get(&of)? {
            Type::Value(layout) => Some(value(*layout)),
            Type::Pointer { storage, to } if BUFFERS.contains(storage) => {
                let is_read = *storage == BUFFERS[0] || self.is(name, NOT_WRITTEN);
                Some(Parameter::Buffer {
                    access: if is_read { Access::Read } else { Access::Write },
                    // Of what has no size here, each byte is an element.
                    element_bytes: self.layout(*to).map_or(1, |layout| layout.bytes),
                })
            }
            Type::Pointer { storage, to } if *storage == FUNCTION && self.is(name, BY_VALUE) => {
                self.layout(*to).map(value)
            }
            Type::Pointer { .. } | Type::Function(_) => None,
        }
    }
}

fn value(layout: Layout) -> Parameter {
    Parameter::Value {
        bytes: layout.bytes,
        // Where it lies in the packed arguments is ours to say.
        alignment: layout.alignment.min(16),
    }
}

/// Text up to its zero byte.
fn text(words: &[u32]) -> String {
    let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A module of these instructions.
    fn module(instructions: &[(u32, &[u32])]) -> Vec<u8> {
        let mut words = vec![u32::from_ne_bytes(MAGIC), 0x1_0000, 0, 99, 0];
        for (code, says) in instructions {
            words.push((u32::try_from(says.len()).unwrap() + 1) << 16 | code);
            words.extend(*says);
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    const NAME: u32 = u32::from_le_bytes(*b"k\0\0\0");

    /// Types: 1 void, 2 int, 3 char, 4 float3, 5 an array of 3 ints, 6 a structure of char, int, array; kernel 20.
    fn kernel(more: &[(u32, &[u32])], takes: &[u32], names: &[u32]) -> Vec<u8> {
        let mut all: Vec<(u32, &[u32])> = vec![
            (15, &[KERNEL, 20, NAME]),
            (71, &[31, PARAMETER, NOT_WRITTEN]),
            (71, &[32, PARAMETER, BY_VALUE]),
            (19, &[1]),
            (21, &[2, 32, 0]),
            (21, &[3, 8, 0]),
            (22, &[7, 32]),
            (23, &[4, 7, 3]),
            (43, &[2, 8, 3]),
            (28, &[5, 2, 8]),
            (30, &[6, 3, 2, 5]),
            (32, &[10, 5, 2]),
            (32, &[11, FUNCTION, 6]),
            (32, &[12, 4, 2]),
            (32, &[13, 0, 6]),
        ];
        all.extend(more);
        let function = [&[20, 1], takes].concat();
        let function: &[u32] = &[&[9], &function[1..]].concat();
        let parameters: Vec<_> = takes.iter().zip(names).map(|(of, id)| [*of, *id]).collect();
        all.push((33, function));
        all.push((54, &[1, 20, 0, 9]));
        all.extend(parameters.iter().map(|one| (55, &one[..])));
        all.push((56, &[]));
        module(&all)
    }

    fn takes(module: &[u8]) -> Option<Vec<Parameter>> {
        let found = kernels(module)?;
        let (name, signature) = found.first()?;
        assert_eq!(name, "k");
        Some(signature.parameters().to_vec())
    }

    #[test]
    fn numbers_vectors_structures_and_memory_are_what_they_are_in_c() {
        let value = |bytes, alignment| Parameter::Value { bytes, alignment };
        let found = takes(&kernel(
            &[],
            &[10, 10, 2, 4, 11, 13],
            &[30, 31, 33, 34, 32, 35],
        ));
        let expected = vec![
            Parameter::write::<u32>(),
            Parameter::read::<u32>(),
            value(4, 4),
            value(16, 16),
            value(20, 4),
            Parameter::Buffer {
                access: Access::Read,
                element_bytes: 20,
            },
        ];
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_structure_without_gaps_is_shorter() {
        let packed: [(u32, &[u32]); 2] = [(71, &[14, PACKED]), (30, &[14, 3, 2])];
        let found = takes(&kernel(&packed, &[14], &[30])).unwrap();
        assert_eq!(found[0].packed_bytes(), 5);
    }

    #[test]
    fn a_kernel_that_the_contract_has_no_word_for_is_left_out() {
        // Memory of a work group; a pointer of the function's own that is no value; a parameter without a head.
        assert_eq!(takes(&kernel(&[], &[12], &[30])), None);
        assert_eq!(takes(&kernel(&[], &[11], &[30])), None);
        assert_eq!(takes(&kernel(&[], &[2, 2], &[30])), None);
        assert_eq!(kernels(&kernel(&[], &[12], &[30])).unwrap().len(), 0);
        assert_eq!(takes(&kernel(&[], &[], &[])), Some(Vec::new()));
    }

    #[test]
    fn what_does_not_add_up_is_no_module() {
        let whole = kernel(&[], &[10], &[30]);
        assert!(kernels(&whole).is_some());
        for length in 0..whole.len() {
            assert!(kernels(&whole[..length]).is_none(), "{length} bytes of it");
        }
        let mut endless = whole;
        endless[HEADER * 4..HEADER * 4 + 4].fill(0);
        assert!(kernels(&endless).is_none(), "an instruction of no words");
    }

    proptest! {
        #[test]
        fn whatever_the_words_are_reading_them_ends(
            words in prop::collection::vec(0_u32..80, 0..60),
            lengths in prop::collection::vec(0_u32..6, 0..60),
        ) {
            let words = words.iter().zip(lengths).map(|(word, length)| word | length << 16);
            let bytes: Vec<_> = [0; HEADER].into_iter().chain(words).flat_map(u32::to_ne_bytes).collect();
            let _found = kernels(&bytes);
        }

        #[test]
        fn a_module_that_was_changed_is_read_or_refused(at in 0..300_usize, word in any::<u32>()) {
            let mut bytes = kernel(&[], &[10, 2, 11], &[30, 31, 32]);
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            let _found = kernels(&bytes);
        }
    }
}
