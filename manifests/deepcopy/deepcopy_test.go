package deepcopy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

type sample struct {
	metav1.ObjectMeta
	Limit   resource.Quantity
	Number  *int32
	Bytes   []byte
	Lists   [][]string
	Numbers map[string][]*int32
	Any     any
	Array   [2]*int32
	Empty   []string
	None    map[string]string
}

func filled() *sample {
	number := func(n int32) *int32 { return &n }
	return &sample{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, CreationTimestamp: metav1.Unix(1, 0)},
		Limit:      resource.MustParse("123456789012345678901234567890"), // beyond int64
		Number:     number(1), Bytes: []byte("text"), Lists: [][]string{{"a"}, nil},
		Numbers: map[string][]*int32{"x": {number(2)}}, Any: map[string]any{"k": []any{"v"}},
		Array: [2]*int32{number(3), nil}, Empty: []string{},
	}
}

// A change of a copy would change an object that the store shares with all readers.
func TestOf_ChangesOfTheCopyLeaveTheOriginal(t *testing.T) {
	original := filled()
	c := deepcopy.Of(original)
	equal := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
	if diff := cmp.Diff(filled(), c, equal); diff != "" {
		t.Fatalf("the copy differs (-want +got):\n%s", diff)
	}
	c.Labels["a"], c.CreationTimestamp = "c", metav1.NewTime(time.Now())
	c.Limit.Add(resource.MustParse("1"))
	*c.Number, c.Bytes[0], c.Lists[0][0] = 9, 'x', "x"
	*c.Numbers["x"][0], *c.Array[0] = 9, 9
	c.Any.(map[string]any)["k"].([]any)[0] = "x"
	if diff := cmp.Diff(filled(), original, equal); diff != "" {
		t.Errorf("the original changed with the copy (-want +got):\n%s", diff)
	}
	if got := deepcopy.Of[sample](nil); got != nil {
		t.Errorf("copy of nil: got %v, want nil", got)
	}
}
