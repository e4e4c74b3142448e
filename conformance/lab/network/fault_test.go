package network

import (
	"strings"
	"testing"
	"time"
)

func TestLink_FaultWithoutAMeaningIsInvalid(t *testing.T) {
	for want, f := range map[string]Fault{
		"":                        {Effect: Cut, Port: 443},
		"a link has cut":          {Effect: "sever"},
		"leave the port out":      {Effect: Delay, By: time.Second, Port: 443},
		"share 0":                 {Effect: Drop},
		"share 100":               {Effect: Drop, Share: 100},
		"share 3":                 {Effect: Cut, Share: 3},
		"delay of 0s":             {Effect: Delay},
		"delay of 1m0s":           {Effect: Delay, By: time.Minute},
		"delay of 1s: delay, and": {Effect: Heal, By: time.Second},
	} {
		err := f.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", f, err, want)
		}
	}
}
