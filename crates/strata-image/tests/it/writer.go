// Packs a directory as a tar with Go's own writer, which container builders use.
//
//	writer DIRECTORY FILE pax|gnu
package main

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := pack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pack(root, file, format string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	writer := tar.NewWriter(out)
	first := map[uint64]string{}
	err = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return add(writer, path, name, info, format, first)
	})
	if err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return out.Close()
}

func add(writer *tar.Writer, path, name string, info os.FileInfo, format string, first map[uint64]string) error {
	target := ""
	if info.Mode()&os.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		target = link
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Uname, header.Gname = name, "", ""
	if info.IsDir() {
		header.Name += "/"
	}
	header.AccessTime, header.ChangeTime = time.Time{}, time.Time{}
	header.Format = tar.FormatPAX
	if format == "gnu" {
		header.Format = tar.FormatGNU
		header.ModTime = header.ModTime.Truncate(time.Second)
	} else if info.Mode().IsRegular() || info.IsDir() {
		records, err := attributes(path)
		if err != nil {
			return err
		}
		header.PAXRecords = records
	}
	stat := info.Sys().(*syscall.Stat_t)
	if known, linked := first[stat.Ino]; linked && !info.IsDir() {
		header.Typeflag, header.Linkname, header.Size = tar.TypeLink, known, 0
	} else {
		first[stat.Ino] = name
	}
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	if header.Typeflag != tar.TypeReg {
		return nil
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(writer, in)
	return err
}

func attributes(path string) (map[string]string, error) {
	names := make([]byte, 4096)
	length, err := syscall.Listxattr(path, names)
	if err != nil {
		return nil, err
	}
	records := map[string]string{}
	for _, name := range strings.Split(string(names[:length]), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 4096)
		length, err := syscall.Getxattr(path, name, value)
		if err != nil {
			return nil, err
		}
		records["SCHILY.xattr."+name] = string(value[:length])
	}
	return records, nil
}
