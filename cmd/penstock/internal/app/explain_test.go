package app

import (
	"fmt"
	"testing"

	"github.com/penstock-project/penstock/picker"
)

func TestExplain_PicksOfAnUnknownPoolListThePoolsThereAre(t *testing.T) {
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprint("ns/", i))
	}
	for name, tt := range map[string]struct {
		pool    string
		picks   int
		pools   []string
		unknown bool
		listed  int
		more    int
	}{
		"none asked for":          {pools: many},
		"known, without a pick":   {pool: "ns/7", pools: many},
		"an import alone":         {pool: "ns/far", pools: []string{"ns/far@"}},
		"a cluster of an import":  {pool: "ns/far@east", pools: []string{"ns/far@east"}},
		"another beginning":       {pool: "ns/fa", pools: []string{"ns/far@"}, unknown: true, listed: 1},
		"unknown":                 {pool: "7", pools: many[:3], unknown: true, listed: 3},
		"unknown, of many":        {pool: "7", pools: many, unknown: true, listed: 20, more: 30},
		"unknown, without pools":  {pool: "7", unknown: true},
		"removed since its picks": {pool: "ns/gone", picks: 1, pools: many},
	} {
		found := FoundPicks{Picks: make([]*picker.Record, tt.picks)}
		if found.find(tt.pool, tt.pools); found.Unknown != tt.unknown || len(found.Pools) != tt.listed ||
			found.More != tt.more {
			t.Errorf("%s: got %+v, want unknown %t, %d listed, %d more", name, found, tt.unknown, tt.listed, tt.more)
		}
	}
}
