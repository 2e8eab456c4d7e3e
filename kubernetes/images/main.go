// Package main writes the images of a cluster as one archive.
//
//	images OUT < DESCRIPTION
//
// The description is JSON: layers by name, each a list of files and links, and
// images made of them. The archive is in the OCI layout, which `ctr images
// import` reads. A layer is in it once, however many images stand on it, and is
// not compressed: it is read from the disk of the machine that unpacks it,
// where unpacking is quicker without.
//
// The same description gives the same bytes: no times, no owners.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
)

// Description is what is read from standard input.
type Description struct {
	// Layers by name.
	Layers map[string][]Entry `json:"layers"`
	Images []Image            `json:"images"`
}

// Entry is one file or link of a layer.
type Entry struct {
	// Path in the image, without a leading slash.
	Path string `json:"path"`
	// Source is the file whose content and mode it has.
	Source string `json:"source,omitempty"`
	// Link is where a symbolic link points to.
	Link string `json:"link,omitempty"`
	// Text is the content of a small file.
	Text string `json:"text,omitempty"`
}

// Image is a name and what it stands for.
type Image struct {
	Name       string   `json:"name"`
	Layers     []string `json:"layers"`
	Entrypoint []string `json:"entrypoint"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: images OUT < DESCRIPTION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func write(out string, in io.Reader) error {
	var description Description
	if err := json.NewDecoder(in).Decode(&description); err != nil {
		return fmt.Errorf("cannot read the description: %w", err)
	}
	archive, err := NewArchive(out)
	if err != nil {
		return err
	}
	layers := map[string]Descriptor{}
	names := make([]string, 0, len(description.Layers))
	for name := range description.Layers {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		entries := description.Layers[name]
		if layers[name], err = archive.AddLayer(entries); err != nil {
			return fmt.Errorf("layer %s: %w", name, err)
		}
	}
	for _, image := range description.Images {
		if err := archive.AddImage(image, layers, runtime.GOARCH); err != nil {
			return fmt.Errorf("image %s: %w", image.Name, err)
		}
	}
	return archive.Close()
}
