package main

import (
	"archive/tar"
	"io"
	"os"
	"path"
	"sort"
	"strings"
)

// writeLayer writes a layer as a tar: its folders, then its files, by name.
func writeLayer(out io.Writer, entries []Entry) error {
	layer := tar.NewWriter(out)
	for _, folder := range foldersOf(entries) {
		mode := int64(0o755)
		if folder == "tmp" {
			mode = 0o1777
		}
		header := tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: mode}
		if err := layer.WriteHeader(&header); err != nil {
			return err
		}
	}
	sorted := append([]Entry(nil), entries...)
	sort.Slice(sorted, func(a, b int) bool { return sorted[a].Path < sorted[b].Path })
	for _, entry := range sorted {
		if err := writeEntry(layer, entry); err != nil {
			return err
		}
	}
	return layer.Close()
}

func writeEntry(layer *tar.Writer, entry Entry) error {
	if entry.Link != "" {
		return layer.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: entry.Path, Linkname: entry.Link, Mode: 0o777,
		})
	}
	if entry.Source == "" {
		header := tar.Header{Typeflag: tar.TypeReg, Name: entry.Path, Mode: 0o644, Size: int64(len(entry.Text))}
		if err := layer.WriteHeader(&header); err != nil {
			return err
		}
		_, err := io.WriteString(layer, entry.Text)
		return err
	}
	source, err := os.Open(entry.Source)
	if err != nil {
		return err
	}
	defer source.Close()
	facts, err := source.Stat()
	if err != nil {
		return err
	}
	header := tar.Header{
		Typeflag: tar.TypeReg, Name: entry.Path, Mode: int64(facts.Mode().Perm()), Size: facts.Size(),
	}
	if err := layer.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(layer, source)
	return err
}

// foldersOf gives every folder above the entries, parents first. /tmp is
// always there: programs expect it.
func foldersOf(entries []Entry) []string {
	seen := map[string]bool{"tmp": true}
	for _, entry := range entries {
		for folder := path.Dir(entry.Path); folder != "."; folder = path.Dir(folder) {
			seen[folder] = true
		}
	}
	var folders []string
	for folder := range seen {
		folders = append(folders, strings.Trim(folder, "/"))
	}
	sort.Strings(folders)
	return folders
}
