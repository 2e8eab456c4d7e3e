//! Of [`super`].

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::log::SegmentWriter;

const CHANNEL: Channel = Channel::Stdout;

fn lines(reader: &mut LogReader) -> Vec<String> {
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    reader.finish(&mut out);
    out.iter()
        .map(|entry| String::from_utf8_lossy(&entry.line).into_owned())
        .collect()
}

#[test]
fn reads_across_segments_and_delivers_a_partial_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 10, 100).unwrap();
    for line in ["one\n", "two\n", "a longer line\n", "end"] {
        writer.write(line.as_bytes(), 7).unwrap();
    }
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    assert_eq!(lines(&mut reader), ["one", "two", "a longer line", "end"]);
}

#[test]
fn overtaken_reader_reports_how_much_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 8, 2).unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    for i in 0..10 {
        writer.write(format!("line {i}\n").as_bytes(), 1).unwrap();
    }
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    let kept: usize = out.iter().map(|entry| entry.line.len() + 1).sum();
    assert!(out[0].lost > 0);
    assert_eq!(out[0].lost as usize + kept, 70);
    assert_eq!(out.last().unwrap().line, "line 9");
}

#[test]
fn loss_after_the_last_line_is_a_gap_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 1000, 2).unwrap();
    writer.write(b"a\nb", 5).unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    reader.end(30, &mut out);
    let shown: Vec<_> = out
        .iter()
        .map(|e| (&e.line[..], e.lost, e.is_gap))
        .collect();
    assert_eq!(
        shown,
        [(&b"a"[..], 0, false), (b"b", 0, false), (b"", 30, true)]
    );
    assert_eq!(out[2].at_ns, 5);
    reader.end(30, &mut out);
    assert_eq!(out.len(), 3, "it is said once");
}

#[test]
fn log_that_was_lost_whole_is_one_gap() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    let mut out = Vec::new();
    assert_eq!(reader.read(&mut out).unwrap(), Read::CaughtUp);
    reader.end(9, &mut out);
    assert!(out[0].is_gap && out[0].lost == 9 && out.len() == 1);
}

#[test]
fn lines_carry_the_time_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 1000, 2).unwrap();
    writer.write(b"a\n", 1_000_000_000).unwrap();
    writer.write(b"b\n", 2_000_000_000).unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    let mut out = Vec::new();
    reader.read(&mut out).unwrap();
    assert_eq!(
        out.iter().map(|e| e.at_ns).collect::<Vec<_>>(),
        [1_000_000_000, 2_000_000_000]
    );
}

#[test]
fn a_reader_of_the_history_alone_ends_where_the_log_ended_when_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 1000, 2).unwrap();
    writer.write(b"a\nb", 1).unwrap();
    let reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    let mut reader = reader.until_now().unwrap();
    writer.write(b"c\nd\n", 1).unwrap();
    assert_eq!(lines(&mut reader), ["a", "b"]);
}

#[test]
fn an_empty_or_missing_log_is_caught_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    assert_eq!(reader.read(&mut Vec::new()).unwrap(), Read::CaughtUp);
    assert!(LogReader::from_start(&dir.path().join("gone"), CHANNEL).is_err());
}

#[test]
fn a_line_without_end_is_delivered_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = SegmentWriter::open(dir.path(), CHANNEL, 64 << 20, 2).unwrap();
    writer.write(&vec![b'x'; 3 * MAX_LINE], 1).unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    let mut out = Vec::new();
    while reader.read(&mut out).unwrap() == Read::Some {}
    reader.finish(&mut out);
    assert!(out.iter().all(|entry| entry.line.len() <= MAX_LINE + CHUNK));
    assert_eq!(
        out.iter().map(|e| e.line.len()).sum::<usize>(),
        3 * MAX_LINE
    );
}

#[test]
fn a_foreign_file_in_the_directory_is_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("stdout.x"), "no").unwrap();
    let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
    assert_eq!(lines(&mut reader), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn log_entries_are_read_in_the_order_they_were_written(
        written in proptest::collection::vec("[a-z]{0,30}", 0..60),
        segment in 5u64..200,
        tail in 0u32..70,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SegmentWriter::open(dir.path(), CHANNEL, segment, 1000).unwrap();
        for line in &written {
            writer.write(format!("{line}\n").as_bytes(), 1).unwrap();
        }
        let mut reader = LogReader::from_start(dir.path(), CHANNEL).unwrap();
        prop_assert_eq!(&lines(&mut reader), &written);
        let mut reader = LogReader::from_tail(dir.path(), CHANNEL, tail).unwrap();
        let skip = written.len().saturating_sub(tail as usize);
        prop_assert_eq!(&lines(&mut reader)[..], &written[skip..]);
    }
}
