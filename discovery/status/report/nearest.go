package report

import "strings"

// Nearest returns the name in names that s most likely misspells; "": no name is similar. If
// several names are equally similar, it returns the first in alphabetical order.
func Nearest(s string, names []string) string {
	best, least := "", min(3, max(1, (len(s)+1)/3))
	for _, n := range names {
		if longer := len(n) - len(s); max(longer, -longer) > least {
			continue
		}
		d := Distance(strings.ToLower(s), strings.ToLower(n))
		if d < least || d == least && (best == "" || n < best) {
			best, least = n, d
		}
	}
	return best
}

// Distance returns the least number of edits that change a to b. An edit adds, removes or replaces
// a byte, or swaps two adjacent bytes (optimal string alignment).
func Distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
