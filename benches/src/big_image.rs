//! A large image of many layers, the same in every run: programs and
//! libraries as large files, half of them noise, and many small texts.

use std::path::Path;

use strata_testkit::images::Image;

const LAYERS: usize = 20;
const DIRS: usize = 20;
/// A library; what is left of a layer is small files.
const LARGE: usize = 4 << 20;
const SMALLEST: usize = 200;
const WORDS: [&str; 32] = [
    "return ",
    "import ",
    "self.",
    "const ",
    "function ",
    "if (",
    ") {\n",
    "}\n",
    "    ",
    "value",
    " = ",
    "null",
    "export ",
    "default ",
    "string",
    "number",
    "error",
    "result",
    ", ",
    ";\n",
    "//",
    "the ",
    "of ",
    "config",
    "module",
    "async ",
    "await ",
    "0",
    "1",
    "true",
    "false",
    "\n",
];

/// Bytes that look random, always the same ones.
pub(crate) struct PseudoRandom(pub(crate) u64);

impl PseudoRandom {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Like source code: packs to about a third.
    pub(crate) fn text(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 16);
        while bytes.len() < length {
            let mut bits = self.next();
            for _ in 0..12 {
                bytes.extend_from_slice(WORDS[(bits & 31) as usize].as_bytes());
                bits >>= 5;
            }
        }
        bytes.truncate(length);
        bytes
    }

    /// Like a program: what packs and what does not, in turns.
    pub(crate) fn program(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 4096);
        while bytes.len() < length {
            match self.next() & 1 {
                0 => bytes.extend((0..512).flat_map(|_| self.next().to_le_bytes())),
                _ => bytes.extend(self.text(4096)),
            }
        }
        bytes.truncate(length);
        bytes
    }
}

/// Writes it as a layout directory; what it is called.
pub(crate) fn write(dir: &Path, bytes: usize) -> String {
    let mut chance = PseudoRandom(0x5eed_0f57_a7a1_ced1);
    let mut image = Image::empty();
    for layer in 0..LAYERS {
        if layer > 0 {
            image = image.layer();
        }
        image = fill(image, layer, bytes / LAYERS, &mut chance);
    }
    image.cmd(["/bin/true"]).write_layout(dir, "latest")
}

fn fill(mut image: Image, layer: usize, bytes: usize, chance: &mut PseudoRandom) -> Image {
    let mut left = bytes;
    for number in 0.. {
        // Two fifths of it are large.
        if left < bytes * 3 / 5 {
            break;
        }
        let size = LARGE.min(bytes / 5);
        let path = format!("usr/lib/layer{layer}/lib{number}.so");
        image = image.program(&path, &chance.program(size));
        left -= size;
    }
    for number in 0.. {
        // Most files are small and some are not, as in any image.
        let most = 1 << (8 + chance.below(9));
        let size = SMALLEST + chance.below(most);
        if left < size {
            return image;
        }
        let dir = number % DIRS;
        if number < DIRS {
            image = image.dir(&format!("srv/layer{layer}/part{dir}"), 0o755, 0);
        }
        let path = format!("srv/layer{layer}/part{dir}/file{number}.js");
        image = image.file(&path, &chance.text(size));
        left -= size;
    }
    image
}
