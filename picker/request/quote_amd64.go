package request

import "golang.org/x/sys/cpu"

// skipBlocks returns how many bytes at the beginning of p have neither a quote that is not escaped, nor a backslash behind another
// one: a multiple of 32. escaped means that the byte before p is a backslash that begins an escape. It needs AVX2.
//
//go:noescape
func skipBlocks(p []byte, escaped bool) int

var hasBlocks = cpu.X86.HasAVX2
