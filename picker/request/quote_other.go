//go:build !amd64

package request

const hasBlocks = false

func skipBlocks([]byte, bool) int { return 0 }
