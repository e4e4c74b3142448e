//go:build !race

package simulate

// seeds is how many seeds a test plays. The race detector makes each ten times as slow.
const seeds = 8

// raced: this is a build with the race detector.
const raced = false
