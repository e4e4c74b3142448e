package peers

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestExplain_PicksOfAPeerAreNoErrorInTheLog(t *testing.T) {
	other := startPublisher(t)
	NewAnswers(status.NewBoard(nil), other.Channel)
	NewAsked(other.Channel, func(picker.Picks) []*picker.Record {
		return []*picker.Record{{Pool: "default/llm", Picker: "other"}}
	})
	var log bytes.Buffer
	t.Cleanup(func() { // after the channels have ended
		if log.Len() > 0 {
			t.Errorf("logged: %s, want nothing", &log)
		}
	})
	c := channel.New(
		channel.Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	NewAnswers(status.NewBoard(nil), c)
	asked := NewAsked(c, func(picker.Picks) []*picker.Record { return nil })
	address, _ := serve(t, c)
	other.SetPeers(address)
	c.SetPeers(other.address)
	subscribed(t, other.Channel)
	subscribed(t, c)
	poll.Until(t, "the peer subscribes to questions", func() bool { return asked.questions.Subscribers() == 1 })
	records, silent := asked.Picks(t.Context(), picker.Picks{Last: 1})
	if len(records) != 1 || records[0].Picker != "other" || silent != 0 {
		t.Fatalf("records %v of the peer, %d silent, want 1 of other, and 0", records, silent)
	}
	// updates are logged before they are acknowledged
	if err := other.Topic("answers").Acknowledged(t.Context()); err != nil {
		t.Fatal(err)
	}
}
