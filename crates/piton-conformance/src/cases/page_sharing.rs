//! Physical pages between processes, as far as one process can try it: what it exported it imports itself.

use super::virtual_memory::{is_unknown_handle, page};
use crate::{
    drive::{DeviceBuffer, Pages, fill_word, free_bytes},
    outcome::{Checked, Failure, accepted, ensure_eq, refused},
    stage::{Stage, finish},
    subject::Subject,
};
use piton_driver::{Device, DeviceRange, ErrorKind, ExportedPages, PageSharing, PhysicalHandle};

cases! { "page sharing":
    what_is_imported_is_what_was_exported [PageSharing HostMemory],
    exported_pages_outlive_the_handle_they_came_from [PageSharing HostMemory],
    an_export_is_imported_as_often_as_one_likes [PageSharing HostMemory],
    shared_pages_are_counted_and_come_back [PageSharing],
    only_pages_created_for_it_are_exported [PageSharing],
    what_is_no_export_is_not_imported [PageSharing],
}

fn sharing(device: &dyn Device) -> Result<&dyn PageSharing, Failure> {
    let sharing = device.page_sharing();
    sharing.ok_or_else(|| Failure::new("facets do not change", "page sharing went away"))
}

/// A handle mapped at addresses of its own.
struct Mapped<'a> {
    pages: Pages<'a>,
    range: DeviceRange,
}

impl<'a> Mapped<'a> {
    fn new(pages: Pages<'a>, handle: PhysicalHandle) -> Result<Self, Failure> {
        let range = pages.0.reserve(page(pages))?;
        pages.map(range.start, handle)?;
        Ok(Self { pages, range })
    }

    fn buffer(&self, stage: &Stage) -> DeviceBuffer {
        DeviceBuffer::at_mapping(&stage.device, self.range.start, self.range.bytes)
    }

    fn write(&self, stage: &Stage, word: u32) -> Checked {
        let (queue, buffer) = (stage.queue()?, self.buffer(stage));
        accepted(fill_word(&queue, &buffer, word))?;
        finish(&queue)
    }

    fn shows(&self, stage: &Stage, word: u32, claim: &'static str) -> Checked {
        let seen = stage.words(&self.buffer(stage), 4)?;
        ensure_eq(seen, vec![word; 4], claim)
    }

    fn end(self) -> Checked {
        self.pages.unmap(self.range)?;
        Ok(self.pages.release(self.range)?)
    }
}

fn what_is_imported_is_what_was_exported(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let handle = shared.create(page(pages))?;
    let exported = shared.export(handle)?;
    let imported = shared.import(&exported, page(pages))?;
    let (own, other) = (Mapped::new(pages, handle)?, Mapped::new(pages, imported)?);
    own.write(&stage, 41)?;
    other.shows(&stage, 41, "an import shows what its exporter wrote")?;
    other.write(&stage, 7)?;
    own.shows(&stage, 7, "an exporter sees what an import wrote")?;
    own.end()?;
    other.end()?;
    pages.0.destroy(handle)?;
    Ok(pages.0.destroy(imported)?)
}

fn exported_pages_outlive_the_handle_they_came_from(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let handle = shared.create(page(pages))?;
    let exported = shared.export(handle)?;
    let own = Mapped::new(pages, handle)?;
    own.write(&stage, 5)?;
    own.end()?;
    pages.0.destroy(handle)?;
    let imported = shared.import(&exported, page(pages))?;
    drop(exported);
    let other = Mapped::new(pages, imported)?;
    other.shows(&stage, 5, "bytes stay while an export or an import does")?;
    other.end()?;
    Ok(pages.0.destroy(imported)?)
}

fn an_export_is_imported_as_often_as_one_likes(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let handle = shared.create(page(pages))?;
    let exports = [shared.export(handle)?, shared.export(handle)?];
    let mut imports = Vec::new();
    for exported in exports.iter().chain(&exports) {
        imports.push(shared.import(exported, page(pages))?);
    }
    let first = Mapped::new(pages, imports[0])?;
    first.write(&stage, 9)?;
    first.end()?;
    for gone in imports.drain(..3) {
        pages.0.destroy(gone)?;
    }
    for last in imports {
        let mapped = Mapped::new(pages, last)?;
        mapped.shows(
            &stage,
            9,
            "each import is a handle of its own to the same bytes",
        )?;
        mapped.end()?;
        pages.0.destroy(last)?;
    }
    // Mapped here for the first time, after others have written it.
    let own = Mapped::new(pages, handle)?;
    own.shows(&stage, 9, "a first mapping changes nothing")?;
    own.end()?;
    Ok(pages.0.destroy(handle)?)
}

fn shared_pages_are_counted_and_come_back(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let before = free_bytes(&*stage.device)?;
    let handle = shared.create(page(pages))?;
    let taken = before - page(pages);
    ensure_eq(free_bytes(&*stage.device)?, taken, "it is memory like any")?;
    let exported = shared.export(handle)?;
    let imported = shared.import(&exported, page(pages))?;
    ensure_eq(free_bytes(&*stage.device)?, taken, "an import takes none")?;
    pages.0.destroy(imported)?;
    drop(exported);
    pages.0.destroy(handle)?;
    ensure_eq(free_bytes(&*stage.device)?, before, "it comes back")?;
    let is_size = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { .. });
    refused(shared.create(0), is_size, "nothing is no size")?;
    let is_odd = |kind: &ErrorKind| matches!(kind, ErrorKind::Misaligned { .. });
    refused(
        shared.create(page(pages) + 1),
        is_odd,
        "sizes are of whole pages",
    )
}

fn only_pages_created_for_it_are_exported(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let is_own = |kind: &ErrorKind| matches!(kind, ErrorKind::NotShareable { .. });
    let plain = pages.0.create(page(pages))?;
    refused(shared.export(plain), is_own, "it was not created for that")?;
    let handle = shared.create(page(pages))?;
    let imported = shared.import(&shared.export(handle)?, page(pages))?;
    refused(shared.export(imported), is_own, "it is another's to export")?;
    for gone in [plain, handle, imported] {
        pages.0.destroy(gone)?;
        refused(
            shared.export(gone),
            is_unknown_handle,
            "a destroyed handle names nothing",
        )?;
    }
    Ok(())
}

fn what_is_no_export_is_not_imported(subject: &Subject) -> Checked {
    let stage = Stage::open(subject)?;
    let (pages, shared) = (Pages::of(&*stage.device)?, sharing(&*stage.device)?);
    let other = stranger()?;
    let is_other = |kind: &ErrorKind| matches!(kind, ErrorKind::NotExported { .. });
    refused(
        shared.import(&other, page(pages)),
        is_other,
        "another thing of the system's is no memory",
    )?;
    let handle = shared.create(page(pages))?;
    let exported = shared.export(handle)?;
    let is_size = |kind: &ErrorKind| matches!(kind, ErrorKind::InvalidSize { .. });
    refused(shared.import(&exported, 0), is_size, "nothing is no size")?;
    Ok(pages.0.destroy(handle)?)
}

/// Something else of the kind that exports are.
#[cfg(unix)]
fn stranger() -> Result<ExportedPages, Failure> {
    let other = std::fs::File::open("/dev/null");
    let other = other.map_err(|error| Failure::new("a file opens", error.to_string()))?;
    Ok(ExportedPages::Descriptor(other.into()))
}

/// Something else of the kind that exports are.
#[cfg(not(unix))]
fn stranger() -> Result<ExportedPages, Failure> {
    Err(Failure::new("exports are descriptors", "there are none"))
}
