//! Rust for the C types of an object file, from its BTF: a struct with the same fields, and how it is read
//! from and written to the bytes of a map.
//!
//! Principles: offsets and sizes are the compiler's; whoever uses a field names it, so that one that was
//! renamed, removed or given another type does not build; what cannot be laid out without guessing (holes,
//! bit fields, unions, pointers) is refused. `__be16` and its kin are bytes as on the wire; fields named
//! `pad` are zero and not shown. Non-goals: units and meaning.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use btf_rs::utils::elf::extract_btf_from_file;
use btf_rs::{Btf, BtfType, Enum, Struct, Type};

/// Makes Rust of the types of all variables in `object`, and of what they consist of.
///
/// # Errors
/// The struct and the field that cannot be laid out, and why.
pub(crate) fn generate(object: &Path) -> Result<String, String> {
    let words = |e: btf_rs::Error| format!("BTF of {}: {e}", object.display());
    let btf = Btf::from_bytes(&extract_btf_from_file(object).map_err(words)?).map_err(words)?;
    let mut all = Generator {
        btf: &btf,
        done: BTreeSet::new(),
        rust: String::from("// Made by build/layout.rs of bpf/types.h.\n"),
    };
    let (first, last) = btf.base().type_id_range();
    for id in first..=last {
        if let Type::Var(variable) = btf.resolve_type_by_id(id).map_err(words)? {
            all.kind(&variable)?;
        }
    }
    if all.done.is_empty() {
        return Err(format!("{} has no variables", object.display()));
    }
    Ok(all.rust)
}

/// What a field is.
enum Kind {
    /// An integer by its Rust name, of so many bytes.
    Integer(String, usize),
    /// So many bytes in network order.
    Wire(usize),
    /// So many of the same.
    Array(Box<Kind>, usize),
    /// A struct by its Rust name.
    Struct(String, Vec<Field>, usize),
}

struct Field {
    name: String,
    kind: Kind,
    offset: usize,
}

struct Generator<'a> {
    btf: &'a Btf,
    /// What has been written.
    done: BTreeSet<String>,
    rust: String,
}

impl Generator<'_> {
    /// The kind of what `of` refers to. Structs and enums are written when they are first met.
    fn kind(&mut self, of: &dyn BtfType) -> Result<Kind, String> {
        let next = self
            .btf
            .resolve_chained_type(of)
            .map_err(|e| e.to_string())?;
        let name = |t: &dyn BtfType| self.btf.resolve_name(t).map_err(|e| e.to_string());
        match next {
            Type::Int(int) => {
                let sign = if int.is_signed() { 'i' } else { 'u' };
                Ok(Kind::Integer(
                    format!("{sign}{}", 8 * int.size()),
                    int.size(),
                ))
            }
            Type::Typedef(t) => {
                let wire = name(&t)?.starts_with("__be");
                let kind = self.kind(&t)?;
                Ok(match kind {
                    Kind::Integer(_, size) if wire => Kind::Wire(size),
                    other => other,
                })
            }
            Type::Array(a) => Ok(Kind::Array(Box::new(self.kind(&a)?), a.len())),
            Type::Enum(e) => {
                let name = name(&e)?;
                self.write_enum(&name, &e)?;
                Ok(Kind::Integer("u32".into(), e.size()))
            }
            Type::Struct(s) => {
                let name = name(&s)?;
                let fields = self.fields(&name, &s)?;
                self.write_struct(&name, &fields, s.size());
                Ok(Kind::Struct(camel(&name), fields, s.size()))
            }
            other => Err(format!("a {} has no place in a map", other.name())),
        }
    }

    /// The fields of a struct, which must lie one behind the other.
    fn fields(&mut self, of: &str, s: &Struct) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        let mut end = 0;
        for member in &s.members {
            let name = self.btf.resolve_name(member).map_err(|e| e.to_string())?;
            let refused = |why: &str| format!("struct {of}, {name}: {why}");
            if member.bitfield_size().is_some_and(|bits| bits > 0) {
                return Err(refused("bit fields are not laid out alike everywhere"));
            }
            let offset = member.bit_offset() as usize / 8;
            if offset != end {
                return Err(refused(&format!(
                    "{} bytes before it have no name",
                    offset - end
                )));
            }
            let kind = self.kind(member).map_err(|why| refused(&why))?;
            end = offset + kind.size();
            fields.push(Field { name, kind, offset });
        }
        match s.size() - end {
            0 => Ok(fields),
            more => Err(format!("struct {of}: {more} bytes at its end have no name")),
        }
    }

    fn write_enum(&mut self, name: &str, e: &Enum) -> Result<(), String> {
        if !self.done.insert(format!("enum {name}")) {
            return Ok(());
        }
        for member in &e.members {
            let constant = self.btf.resolve_name(member).map_err(|e| e.to_string())?;
            let value = member.val();
            let _ = write!(
                self.rust,
                "\n/// Of `enum {name}`.\npub(crate) const {constant}: u32 = {value};\n"
            );
        }
        Ok(())
    }

    fn write_struct(&mut self, name: &str, fields: &[Field], size: usize) {
        if !self.done.insert(format!("struct {name}")) {
            return;
        }
        let (mut declared, mut read, mut written) = (String::new(), String::new(), String::new());
        for Field { name, kind, offset } in fields.iter().filter(|f| !f.is_padding()) {
            let _ = writeln!(declared, "    pub(crate) {name}: {},", kind.rust());
            let _ = writeln!(read, "            {name}: {},", kind.read(*offset));
            kind.write(&format!("self.{name}"), *offset, &mut written);
        }
        let rust = camel(name);
        let _ = write!(
            self.rust,
            "
/// `struct {name}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct {rust} {{
{declared}}}

impl {rust} {{
    /// Bytes in a map.
    pub(crate) const SIZE: usize = {size};

    /// From a map.
    pub(crate) const fn from_bytes(b: &[u8; {size}]) -> Self {{
        {rust} {{
{read}        }}
    }}

    /// As in a map.
    pub(crate) const fn to_bytes(self) -> [u8; {size}] {{
        let mut b = [0; {size}];
{written}        b
    }}
}}
"
        );
    }
}

impl Field {
    fn is_padding(&self) -> bool {
        self.name.starts_with("pad")
    }
}

impl Kind {
    /// Bytes.
    fn size(&self) -> usize {
        match self {
            Kind::Integer(_, size) | Kind::Wire(size) | Kind::Struct(_, _, size) => *size,
            Kind::Array(kind, n) => n * kind.size(),
        }
    }

    /// Its Rust type.
    fn rust(&self) -> String {
        match self {
            Kind::Integer(name, _) | Kind::Struct(name, ..) => name.clone(),
            Kind::Wire(size) => format!("[u8; {size}]"),
            Kind::Array(kind, n) => format!("[{}; {n}]", kind.rust()),
        }
    }

    /// An expression that reads it from `b`, whose indices the compiler checks.
    fn read(&self, at: usize) -> String {
        match self {
            Kind::Integer(name, size) => format!("{name}::from_ne_bytes({})", bytes(at, *size)),
            Kind::Wire(size) => bytes(at, *size),
            Kind::Array(kind, n) => {
                let all = (0..*n).map(|i| kind.read(at + i * kind.size()));
                format!("[{}]", all.collect::<Vec<_>>().join(", "))
            }
            Kind::Struct(name, fields, _) => {
                let shown = fields.iter().filter(|f| !f.is_padding());
                let all = shown.map(|f| format!("{}: {}", f.name, f.kind.read(at + f.offset)));
                format!("{name} {{ {} }}", all.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Statements that write `value` to `b`.
    fn write(&self, value: &str, at: usize, to: &mut String) {
        match self {
            Kind::Integer(_, size) => {
                let _ = writeln!(to, "        {} = {value}.to_ne_bytes();", bytes(at, *size));
            }
            Kind::Wire(size) => {
                let _ = writeln!(to, "        {} = {value};", bytes(at, *size));
            }
            Kind::Array(kind, n) => {
                for i in 0..*n {
                    kind.write(&format!("{value}[{i}]"), at + i * kind.size(), to);
                }
            }
            Kind::Struct(_, fields, _) => {
                for f in fields.iter().filter(|f| !f.is_padding()) {
                    f.kind
                        .write(&format!("{value}.{}", f.name), at + f.offset, to);
                }
            }
        }
    }
}

/// Bytes `at` and behind, one by one.
fn bytes(at: usize, size: usize) -> String {
    let all = (at..at + size).map(|i| format!("b[{i}]"));
    format!("[{}]", all.collect::<Vec<_>>().join(", "))
}

/// `flow_key` as `FlowKey`.
fn camel(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_uppercase() + rest
    });
    words.collect()
}
