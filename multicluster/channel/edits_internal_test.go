package channel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The cost of a publication depends only on the published items. Topic.Visible is not called for
// other items. Subscribers that may not receive the items are not woken. For an item with one
// receiver (Topic.Addressed), Visible is called only for that receiver.
func TestTopic_APublicationCostsWhatItPublishes(t *testing.T) {
	t.Run("any receivers", func(t *testing.T) { publicationCosts(t, nil, 20) })
	t.Run("one receiver", func(t *testing.T) {
		publicationCosts(t, func(key string) string { return key[:1] }, 5)
	})
}

func publicationCosts(t *testing.T, receiver func(key string) string, most int) {
	t.Helper()
	c := New(Config{})
	topic := c.Topic("things")
	topic.Addressed(receiver)
	judged, hidden := 0, ""
	topic.Visible(func(subscriber, key string) bool {
		judged++
		return strings.HasPrefix(key, subscriber+"/") && key != hidden
	})
	subscribers := map[string]*subscriber{}
	for _, name := range []string{"a", "b"} {
		s := &subscriber{name: name, topics: map[string]*subscription{"things": {made: true, known: map[string]bool{}}},
			wake: make(chan struct{}, 1)}
		subscribers[name], c.subscribers[s] = s, struct{}{}
	}
	// next returns the response to a subscriber that was woken, and acknowledges it.
	next := func(name string) (got string) {
		s := subscribers[name]
		select {
		case <-s.wake:
		default:
			return "idle"
		}
		for _, r := range c.responses(s) {
			var put []string
			for _, res := range r.GetResources() {
				put = append(put, res.GetName())
			}
			slices.Sort(put)
			got += fmt.Sprintf("%d put %.40s, removed %v", len(put), strings.Join(put, " "), r.GetRemovedResources())
			c.request(s, &request{TypeUrl: "things", ResponseNonce: r.GetNonce()})
			<-s.wake // the acknowledgement woke the subscriber
		}
		return got
	}
	expect := func(step, name, want string) {
		t.Helper()
		if got := next(name); got != want {
			t.Errorf("%s: %s is sent %q, want %q", step, name, got, want)
		}
	}
	var items []Item
	for i := range 1000 {
		items = append(items, Item{Key: fmt.Sprintf("a/%03d", i)})
	}
	topic.Publish(append(items, Item{Key: "b/0"})...)
	expect("snapshot", "a", "1000 put a/000 a/001 a/002 a/003 a/004 a/005 a/00, removed []")
	expect("snapshot", "b", "1 put b/0, removed []")
	judged = 0
	topic.Publish(Item{Key: "a/005"})
	expect("one item", "a", "1 put a/005, removed []")
	expect("one item", "b", "idle")
	topic.Retract("a/007", "none")
	expect("a retraction", "a", "0 put , removed [a/007]")
	expect("a retraction", "b", "idle")
	topic.Publish(Item{Key: "a/007"}, Item{Key: "a/008"})
	topic.Retract("a/007")
	expect("published and retracted", "a", "1 put a/008, removed []")
	if judged > most {
		t.Errorf("%d items were judged for 3 publications and 2 retractions, want at most %d", judged, most)
	}
	for range 5 { // more edits than note keeps
		topic.Publish(items...)
	}
	topic.Retract("a/009")
	expect("far behind", "a", "999 put a/000 a/001 a/002 a/003 a/004 a/005 a/00, removed [a/009]")
	hidden = "a/010"
	topic.Publish(Item{Key: "a/011"})
	expect("before it is judged", "a", "1 put a/011, removed []")
	topic.Judge()
	expect("judged", "a", "0 put , removed [a/010]")
}

// A response waits for the acknowledgement of the previous response, even if the previous response
// was the snapshot of an empty topic. Otherwise, the peer would end the stream.
func TestTopic_OneResponseIsInFlight(t *testing.T) {
	c := New(Config{})
	topic := c.Topic("things")
	s := &subscriber{topics: map[string]*subscription{"things": {made: true, known: map[string]bool{}}},
		wake: make(chan struct{}, 1)}
	c.subscribers[s] = struct{}{}
	for published := range 3 {
		sent := c.responses(s)
		if len(sent) != 1 || len(sent[0].GetResources()) != min(published, 1) {
			t.Fatalf("after %d publications it is sent %v, want one response", published, sent)
		}
		topic.Publish(Item{Key: fmt.Sprint(published)})
		if early := c.responses(s); len(early) > 0 {
			t.Fatalf("after %d publications it is sent %v, want nothing before it acknowledges the last response",
				published, early)
		}
		c.request(s, &request{TypeUrl: "things", ResponseNonce: sent[0].GetNonce()})
	}
}
