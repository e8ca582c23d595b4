//! Takes out of an object what only people read: clang writes DWARF, lines of the source and labels with the BTF that the
//! loader needs, and that is two thirds of the file, which stands in the program as it is.
//!
//! Principle: sections and labels are taken out by their names, with what relocates them; all else stays. For a verifier's
//! log with lines, leave `.BTF.ext` in. Non-goals: other formats.

use std::path::Path;

use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// Rewrites the file.
///
/// # Errors
/// The file, and why.
pub(crate) fn debug_sections(path: &Path) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("strip {}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(|e| failed(&e))?;
    let mut builder = Builder::read(&*bytes).map_err(|e| failed(&e))?;
    for section in &mut builder.sections {
        let name = String::from_utf8_lossy(&section.name);
        let name = name.strip_prefix(".rel").unwrap_or(&name);
        section.delete = name.starts_with(".debug") || name == ".BTF.ext";
    }
    for symbol in &mut builder.symbols {
        symbol.delete = symbol.name.starts_with(b"LBB");
    }
    builder.delete_orphans();
    // clang keeps the names of sections among those of symbols, the writer does not.
    let names = builder.sections.add();
    names.name = ".shstrtab".into();
    names.sh_type = SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    builder.write(&mut stripped).map_err(|e| failed(&e))?;
    std::fs::write(path, stripped).map_err(|e| failed(&e))
}
