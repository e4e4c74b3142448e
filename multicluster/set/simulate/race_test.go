//go:build race

package simulate

// seeds is how many seeds a test plays. The race detector makes each ten times as slow.
const seeds = 1
