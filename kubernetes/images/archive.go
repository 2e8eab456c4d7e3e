package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// Descriptor names a blob, as the OCI's image specification has it.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Archive is an OCI layout in a tar that is being written.
type Archive struct {
	file      *os.File
	tar       *tar.Writer
	written   map[string]bool
	manifests []Descriptor
}

// NewArchive begins an archive.
func NewArchive(path string) (*Archive, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	archive := &Archive{file: file, tar: tar.NewWriter(file), written: map[string]bool{}}
	return archive, archive.addFile("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
}

// AddLayer writes a layer and tells what it is called by. It goes to a file
// first: its digest is its name, and stands before it.
func (a *Archive) AddLayer(entries []Entry) (Descriptor, error) {
	scratch, err := os.CreateTemp(filepath.Dir(a.file.Name()), "layer-*")
	if err != nil {
		return Descriptor{}, err
	}
	defer os.Remove(scratch.Name())
	defer scratch.Close()
	hash := sha256.New()
	if err := writeLayer(io.MultiWriter(scratch, hash), entries); err != nil {
		return Descriptor{}, err
	}
	size, err := scratch.Seek(0, io.SeekCurrent)
	if err != nil {
		return Descriptor{}, err
	}
	if _, err := scratch.Seek(0, io.SeekStart); err != nil {
		return Descriptor{}, err
	}
	layer := Descriptor{MediaType: typeLayer, Digest: digestOf(hash.Sum(nil)), Size: size}
	return layer, a.addBlob(layer, scratch)
}

// AddImage writes config and manifest of an image and gives it its name.
func (a *Archive) AddImage(image Image, layers map[string]Descriptor, architecture string) error {
	var used []Descriptor
	var digests []string
	for _, name := range image.Layers {
		layer, there := layers[name]
		if !there {
			return fmt.Errorf("no layer is called %s", name)
		}
		used = append(used, layer)
		digests = append(digests, layer.Digest)
	}
	config, err := a.addJSON(typeConfig, map[string]any{
		"architecture": architecture,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": image.Entrypoint,
			"Env":        []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		// The layers are not compressed, so their digests are those of the content.
		"rootfs": map[string]any{"type": "layers", "diff_ids": digests},
	})
	if err != nil {
		return err
	}
	manifest, err := a.addJSON(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": used,
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{
		"io.containerd.image.name":          image.Name,
		"org.opencontainers.image.ref.name": image.Name[strings.LastIndex(image.Name, ":")+1:],
	}
	a.manifests = append(a.manifests, manifest)
	return nil
}

// Close writes the index and ends the archive.
func (a *Archive) Close() error {
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": a.manifests,
	})
	if err != nil {
		return err
	}
	if err := a.addFile("index.json", index); err != nil {
		return err
	}
	if err := a.tar.Close(); err != nil {
		return err
	}
	return a.file.Close()
}

func (a *Archive) addJSON(mediaType string, value any) (Descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return Descriptor{}, err
	}
	hash := sha256.Sum256(text)
	blob := Descriptor{MediaType: mediaType, Digest: digestOf(hash[:]), Size: int64(len(text))}
	return blob, a.addBlob(blob, bytes.NewReader(text))
}

func (a *Archive) addBlob(blob Descriptor, content io.Reader) error {
	if a.written[blob.Digest] {
		return nil
	}
	a.written[blob.Digest] = true
	name := "blobs/sha256/" + strings.TrimPrefix(blob.Digest, "sha256:")
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: blob.Size}); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}

func (a *Archive) addFile(name string, content []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := a.tar.Write(content)
	return err
}

func digestOf(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }
