package selection

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func candidate(name, region, zone string, weight uint32) Candidate {
	return Candidate{Place: Place{name, region, zone}, Weight: weight}
}

func TestSelection_WeightedKeepsWeightsAndLeavesOutZero(t *testing.T) {
	shares, warning := Weighted([]Candidate{candidate("west", "", "", 20), candidate("east", "", "", 50),
		candidate("north", "", "", 0), candidate("south", "", "", 30)})
	if diff := cmp.Diff([]Share{{"east", 50, 0}, {"south", 30, 0}, {"west", 20, 0}}, shares); diff != "" ||
		warning != "" {
		t.Errorf("want these shares without a warning (-want +got):\n%s%s", diff, warning)
	}
	if _, warning := Weighted([]Candidate{candidate("a", "", "", 100), candidate("b", "", "", 1)}); warning != "" {
		t.Errorf("weights 100 and 1: got warning %q, want none", warning)
	}
	if _, warning := Weighted([]Candidate{candidate("a", "", "", 101), candidate("b", "", "", 1)}); !strings.Contains(
		warning, "a (101) and b (1)") {
		t.Errorf("weights 101 and 1: got warning %q, want a (101) and b (1)", warning)
	}
	if shares, _ := Weighted(nil); len(shares) != 0 {
		t.Errorf("shares of nothing: got %v, want none", shares)
	}
}

func TestSelection_LocalityServesZoneThenRegionThenRest(t *testing.T) {
	members := []Candidate{
		candidate("far", "us-1", "us-1a", 5), candidate("unknown", "", "", 1), candidate("near", "eu-1", "eu-1b", 2),
		candidate("next", "eu-1", "eu-1a", 3),
		candidate("own", "eu-1", "eu-1a", 4), candidate("off", "eu-1", "eu-1b", 0),
	}
	own := Place{"own", "eu-1", "eu-1a"}
	want := []Share{{"next", 3, 0}, {"own", 4, 0}, {"near", 2, 1}, {"far", 5, 2}, {"unknown", 1, 2}}
	shares, warning := Locality(own, members)
	if diff := cmp.Diff(want, shares); diff != "" || warning != "" {
		t.Errorf("want these shares without a warning (-want +got):\n%s%s", diff, warning)
	}
	// Without members in own's region, the other members have priority 0, because Envoy allows no
	// gaps.
	shares, _ = Locality(Place{Name: "else"}, members[:2])
	if diff := cmp.Diff([]Share{{"far", 5, 0}, {"unknown", 1, 0}}, shares); diff != "" {
		t.Errorf("want these shares (-want +got):\n%s", diff)
	}
	// Weights of different priorities are not compared.
	if _, warning := Locality(own,
		[]Candidate{candidate("own", "eu-1", "eu-1a", 1), candidate("far", "", "", 1000)}); warning != "" {
		t.Errorf("weights of different priorities: got warning %q, want none", warning)
	}
}

func TestSelection_PriorityServesByTheFirstThatIsUp(t *testing.T) {
	members := []Candidate{candidate("b", "", "", 1), candidate("a", "", "", 1), candidate("own", "", "", 7),
		candidate("c", "", "", 1), candidate("off", "", "", 0)}
	for _, c := range []struct {
		order []string
		down  string
		want  string
	}{{nil, "", "own a b c"}, {[]string{"c", "gone", "b"}, "", "c b own a"}, {nil, "own", "a b c own"},
		{nil, "own a b c", "own a b c"}} {
		for i := range members {
			members[i].Down = strings.Contains(" "+c.down+" ", " "+members[i].Name+" ")
		}
		var got []string
		for i, s := range Priority("own", c.order, members) {
			if s.Priority != uint32(i) || s.Weight != 1 {
				t.Errorf("got %+v, want priority %d and weight 1", s, i)
			}
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("order %v, down %q: %v, want %s", c.order, c.down, got, c.want)
		}
	}
}

func TestSelection_MemberThatFlapsOnceASecondStaysDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Damper
		if !d.Up(time.Now()) {
			t.Fatal("a member is down from the start")
		}
		for i := range 20 {
			d.Observe(time.Now(), i%2 == 1)
			if d.Up(time.Now()) {
				t.Fatalf("up after %d changes, want it down", i)
			}
			time.Sleep(500 * time.Millisecond)
		}
		// The last change was half a second ago.
		recovered := time.Now().Add(-500 * time.Millisecond)
		for !d.Up(time.Now()) {
			d.Observe(time.Now(), true)
			at, ok := d.Next(time.Now())
			if !ok {
				t.Fatal("it is never up again")
			}
			time.Sleep(time.Until(at))
		}
		if took := time.Since(recovered); took > 5*time.Second {
			t.Errorf("back after %s, want at most %s", took, 5*time.Second)
		}
		d.Observe(time.Now(), false)
		if _, ok := d.Next(time.Now()); ok || d.Up(time.Now()) {
			t.Error("up although it went down")
		}
	})
}

func TestSelection_WithinExcludesMembersOfUnknownRegions(t *testing.T) {
	eu, us, unknown := Place{"a", "eu", ""}, Place{"b", "us", ""}, Place{"c", "", ""}
	for _, c := range []struct {
		within Within
		want   [3]bool
	}{
		{Within{}, [3]bool{true, true, true}},
		{Within{Regions: []string{"eu"}}, [3]bool{true, false, false}},
		{Within{Regions: []string{""}}, [3]bool{false, false, false}},
		{Within{Clusters: []string{"b", "c"}}, [3]bool{false, true, true}},
		{Within{Clusters: []string{"b", "c"}, Regions: []string{"us", "eu"}}, [3]bool{false, true, false}},
	} {
		if got := [3]bool{c.within.Allows(eu), c.within.Allows(us), c.within.Allows(unknown)}; got != c.want {
			t.Errorf("%+v: %v, want %v", c.within, got, c.want)
		}
	}
}
