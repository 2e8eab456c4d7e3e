// Package main is CoreDNS. Its plugins are in plugins.go, which is made of the
// list in the release that is built.
package main

import "github.com/coredns/coredns/coremain"

func main() {
	coremain.Run()
}
