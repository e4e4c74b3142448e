package status

import (
	"cmp"
	"strconv"
	"strings"
)

func comparePlaces(a, b string) int {
	fileA, lineA := cutPlace(a)
	fileB, lineB := cutPlace(b)
	return cmp.Or(strings.Compare(fileA, fileB), cmp.Compare(lineA, lineB))
}

func cutPlace(place string) (file string, line int) {
	if i := strings.LastIndexByte(place, ':'); i >= 0 {
		if n, err := strconv.Atoi(place[i+1:]); err == nil {
			return place[:i], n
		}
	}
	return place, 0
}
