//go:build race

package simulate

// seeds is how many seeds a test plays. Under the race detector, a seed takes ten times as long.
const seeds = 1
