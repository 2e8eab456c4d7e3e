//! PAX records: `length key=value\n`, which override the header they precede.

use super::TarError;

/// The content of the records in front of an entry.
#[derive(Debug, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) sparse: PaxSparse,
}

/// The three ways in which PAX describes holes.
#[derive(Debug, Default)]
pub(super) struct PaxSparse {
    /// 1.0: the map stands in front of the data.
    pub(super) map_in_data: bool,
    /// 0.0 and 0.1: offsets and lengths, in turn.
    pub(super) map: Option<Vec<u64>>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

impl Pax {
    pub(super) fn parse(mut records: &[u8]) -> Result<Self, TarError> {
        let mut pax = Self::default();
        while !records.is_empty() {
            let (key, value, rest) = record(records)?;
            pax.take(key, value)?;
            records = rest;
        }
        Ok(pax)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarError> {
        match key {
            // POSIX: without a value, that of the header holds.
            b"path" if value.is_empty() => self.path = None,
            b"linkpath" if value.is_empty() => self.link = None,
            b"size" if value.is_empty() => self.size = None,
            b"uid" if value.is_empty() => self.uid = None,
            b"gid" if value.is_empty() => self.gid = None,
            b"mtime" if value.is_empty() => self.mtime = None,
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(integer(value, "size")?),
            b"uid" => self.uid = Some(integer(value, "uid")?),
            b"gid" => self.gid = Some(integer(value, "gid")?),
            b"mtime" => self.mtime = Some(time(value)?),
            b"GNU.sparse.major" => self.sparse.map_in_data = value == b"1",
            b"GNU.sparse.name" => self.sparse.name = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => {
                self.sparse.size = Some(integer(value, "sparse size")?);
            }
            b"GNU.sparse.map" => {
                let numbers = value.split(|byte| *byte == b',');
                let map = numbers.map(|number| integer(number, "sparse map"));
                self.sparse.map = Some(map.collect::<Result<_, _>>()?);
            }
            b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
                let map = self.sparse.map.get_or_insert_default();
                map.push(integer(value, "sparse map")?);
            }
            _ => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.retain(|(known, _)| known != name);
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

/// Key, value, and what follows them.
type PaxRecord<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first record, and what follows it. The length counts itself.
fn record(bytes: &[u8]) -> Result<PaxRecord<'_>, TarError> {
    let space = bytes.iter().position(|byte| *byte == b' ');
    let space = space.ok_or(TarError::Pax)?;
    let length = integer(&bytes[..space], "PAX length").map_err(|_| TarError::Pax)?;
    let length = usize::try_from(length).map_err(|_| TarError::Pax)?;
    if length <= space + 1 || length > bytes.len() || bytes[length - 1] != b'\n' {
        return Err(TarError::Pax);
    }
    let body = &bytes[space + 1..length - 1];
    let equals = body.iter().position(|byte| *byte == b'=');
    let equals = equals.filter(|at| *at > 0).ok_or(TarError::Pax)?;
    Ok((&body[..equals], &body[equals + 1..], &bytes[length..]))
}

pub(super) fn integer(text: &[u8], what: &'static str) -> Result<u64, TarError> {
    let text = std::str::from_utf8(text).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.and_then(|text| text.parse().ok())
        .ok_or(TarError::Number(what))
}

/// `seconds[.fraction]`, perhaps before 1970.
fn time(text: &[u8]) -> Result<(i64, u32), TarError> {
    let refuse = || TarError::Number("mtime");
    let text = std::str::from_utf8(text).map_err(|_| refuse())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().map_err(|_| refuse())?;
    let mut nanos = 0_u32;
    let mut scale = 100_000_000_u32;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() {
            return Err(refuse());
        }
        nanos += u32::from(digit - b'0') * scale;
        scale /= 10;
    }
    // -1.25 is a quarter second before -1, not after it.
    if whole.starts_with('-') && nanos > 0 {
        let earlier = seconds.checked_sub(1).ok_or_else(refuse)?;
        return Ok((earlier, 1_000_000_000 - nanos));
    }
    Ok((seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_count_backwards() {
        assert_eq!(time(b"12.5").unwrap(), (12, 500_000_000));
        assert_eq!(time(b"-1.25").unwrap(), (-2, 750_000_000));
        assert_eq!(time(b"3.0000000019").unwrap(), (3, 1));
        assert!(time(b"1.x").is_err());
        assert!(time(b"").is_err());
    }

    #[test]
    fn records_that_lie_about_their_length_are_refused() {
        for bad in [
            &b"9 path=a"[..],
            b"99 path=a\n",
            b"2 \n",
            b"7 path\n",
            b"6 =ab\n",
            b"-1 path=a\n",
            b"path=a\n",
        ] {
            assert!(Pax::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
        let good = Pax::parse(b"10 path=a\n10 path=b\n").unwrap();
        assert_eq!(good.path.as_deref(), Some(&b"b"[..]));
    }
}
