//! The contract as lines of text, from the table or from descriptors, and the
//! comparison of the two.

use std::collections::{HashMap, HashSet};
use std::fmt;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto, ServiceDescriptorProto,
};

/// Fields from here on are ours to add.
const FIRST_OWN_FIELD: i32 = 100;

/// One thing a client relies on: what it is, its full name, its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Kind and full name: `field runtime.Cell.name`. Unique.
    key: String,
    /// The rest: `= 1 string`. Empty for packages, messages, enums, services.
    shape: String,
    /// Old clients do not notice it, so it needs no leave to be there.
    unnoticed: bool,
}

impl Line {
    fn new(kind: &str, name: &str, shape: impl Into<String>) -> Line {
        Line {
            key: format!("{kind} {name}"),
            shape: shape.into(),
            unnoticed: false,
        }
    }

    pub(crate) fn kind(&self) -> &str {
        self.key.split_once(' ').map_or("", |(kind, _)| kind)
    }

    pub(crate) fn name(&self) -> &str {
        self.key.split_once(' ').map_or("", |(_, name)| name)
    }

    /// The name of what it stands in.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.name().rsplit_once('.').map(|(parent, _)| parent)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.shape.is_empty() {
            write!(f, " {}", self.shape)?;
        }
        Ok(())
    }
}

/// Reads a table. Comments start with `#`; nothing may stand in it twice.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for (number, text) in (1..).zip(text.lines().map(str::trim)) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut words = text.splitn(3, ' ');
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            return Err(format!("line {number}: {text:?} has no name"));
        };
        let line = Line::new(kind, name, words.next().unwrap_or_default());
        if !seen.insert(line.key.clone()) {
            return Err(format!("line {number}: {} stands there twice", line.key));
        }
        lines.push(line);
    }
    Ok(lines)
}

pub(crate) fn packages(lines: &[Line]) -> Vec<&str> {
    let packages = lines.iter().filter(|line| line.kind() == "package");
    packages.map(Line::name).collect()
}

/// Everything that `set` holds in `packages`.
pub(crate) fn render(set: &FileDescriptorSet, packages: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    for file in &set.file {
        let package = file.package();
        if !packages.contains(&package) {
            continue;
        }
        // Presence and packing follow from the syntax.
        let syntax = match file.syntax() {
            "proto3" => String::new(),
            other => format!("syntax {other:?}"),
        };
        lines.push(Line::new("package", package, syntax));
        for message in &file.message_type {
            render_message(message, package, &mut lines);
        }
        for declared in &file.enum_type {
            render_enum(declared, package, &mut lines);
        }
        for service in &file.service {
            render_service(service, package, &mut lines);
        }
    }
    lines
}

fn render_message(message: &DescriptorProto, parent: &str, lines: &mut Vec<Line>) {
    let name = format!("{parent}.{}", message.name());
    lines.push(Line::new("message", &name, ""));
    for field in &message.field {
        lines.push(field_line(field, &name));
    }
    for nested in &message.nested_type {
        render_message(nested, &name, lines);
    }
    for nested in &message.enum_type {
        render_enum(nested, &name, lines);
    }
}

fn render_enum(declared: &EnumDescriptorProto, parent: &str, lines: &mut Vec<Line>) {
    let name = format!("{parent}.{}", declared.name());
    lines.push(Line::new("enum", &name, ""));
    for value in &declared.value {
        let value_name = format!("{name}.{}", value.name());
        lines.push(Line::new(
            "value",
            &value_name,
            format!("= {}", value.number()),
        ));
    }
}

fn render_service(service: &ServiceDescriptorProto, parent: &str, lines: &mut Vec<Line>) {
    let name = format!("{parent}.{}", service.name());
    lines.push(Line::new("service", &name, ""));
    for method in &service.method {
        lines.push(Line::new(
            "rpc",
            &format!("{name}.{}", method.name()),
            method_shape(method),
        ));
    }
}

fn method_shape(method: &MethodDescriptorProto) -> String {
    let side = |streams: bool, type_name: &str| {
        let stream = if streams { "stream " } else { "" };
        format!("({stream}{})", type_name.trim_start_matches('.'))
    };
    format!(
        "{} returns {}",
        side(method.client_streaming(), method.input_type()),
        side(method.server_streaming(), method.output_type()),
    )
}

fn field_line(field: &FieldDescriptorProto, message: &str) -> Line {
    let label = match field.label() {
        Label::Repeated => "repeated ",
        Label::Required => "required ",
        Label::Optional if field.proto3_optional() => "optional ",
        Label::Optional => "",
    };
    let mut shape = format!("= {} {label}{}", field.number(), type_of(field));
    // None of what follows is in the published documents; each would change
    // what an old client sees.
    if field.oneof_index.is_some() && !field.proto3_optional() {
        shape.push_str(" in a oneof");
    }
    if let Some(packed) = field.options.as_ref().and_then(|options| options.packed) {
        shape.push_str(&format!(" packed={packed}"));
    }
    if let Some(json) = &field.json_name
        && *json != camel_case(field.name())
    {
        shape.push_str(&format!(" json={json}"));
    }
    let may_be_absent = field.label() == Label::Repeated || field.proto3_optional();
    let mut line = Line::new("field", &format!("{message}.{}", field.name()), shape);
    line.unnoticed = field.number() >= FIRST_OWN_FIELD && may_be_absent;
    line
}

fn type_of(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => {
            field.type_name().trim_start_matches('.').to_owned()
        }
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_ascii_lowercase(),
    }
}

/// The name that protobuf's JSON mapping gives a field by default.
fn camel_case(name: &str) -> String {
    let mut raise = false;
    let mut json = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' => raise = true,
            c if raise => {
                json.push(c.to_ascii_uppercase());
                raise = false;
            }
            c => json.push(c),
        }
    }
    json
}

/// What is missing from `ours` (`-`), changed in it (`-` and `+`), or in it
/// without leave (`+`).
pub(crate) fn differences(published: &[Line], additions: &[Line], ours: &[Line]) -> Vec<String> {
    let found: HashMap<&str, &Line> = ours.iter().map(|line| (&*line.key, line)).collect();
    let mut known = HashSet::new();
    let mut differences = Vec::new();
    for line in published.iter().chain(additions) {
        if !known.insert(&*line.key) {
            differences.push(format!("! {} is published; it cannot be added", line.key));
        }
        match found.get(&*line.key) {
            Some(found) if found.shape == line.shape => {}
            Some(found) => differences.push(format!("- {line}\n+ {found}")),
            None => differences.push(format!("- {line}")),
        }
    }
    for line in ours {
        if !known.contains(&*line.key) && !line.unnoticed {
            differences.push(format!(
                "+ {line}    (neither published nor in additions.txt)"
            ));
        }
    }
    differences
}
