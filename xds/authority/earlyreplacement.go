package authority

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// The Secret has these keys during an early replacement. Their values are times (RFC 3339).
const (
	rotationSigns = "rotation.signs"
	rotationEnds  = "rotation.ends"
)

type rotation struct {
	signs time.Time // zero if the next authority signs already
	ends  time.Time
}

func readRotation(data map[string][]byte) (r rotation) {
	r.signs, _ = time.Parse(time.RFC3339, string(data[rotationSigns]))
	r.ends, _ = time.Parse(time.RFC3339, string(data[rotationEnds]))
	return r
}

func (r rotation) write(data map[string][]byte) {
	for key, at := range map[string]time.Time{rotationSigns: r.signs, rotationEnds: r.ends} {
		if !at.IsZero() {
			data[key] = []byte(at.UTC().Format(time.RFC3339))
		}
	}
}

func (r rotation) due(now time.Time) bool { return !r.signs.IsZero() && !now.Before(r.signs) }

func (r rotation) over(now time.Time) bool {
	return r.signs.IsZero() && !r.ends.IsZero() && !now.Before(r.ends)
}

// If no process ran in time, the previous authority stays trusted for the planned duration from
// now.
func (r rotation) signing(now time.Time) rotation {
	if r.signs.IsZero() {
		return rotation{}
	}
	return rotation{ends: now.Add(r.ends.Sub(r.signs))}
}

// Rotated has the times of a rotation in progress.
type Rotated struct {
	Signs time.Time // when the new authority begins to sign
	Ends  time.Time // when trust in the previous authority ends
}

var errNone = errors.New("there is no authority: penstock makes it when it first runs")

// ErrNone reports whether Rotate found no authority.
func ErrNone(err error) bool { return errors.Is(err, errNone) }

const rotateAttempts = 10

// Rotate replaces an authority whose key may be compromised. The new authority signs after overlap,
// and trust in the previous authority ends after another overlap. A next authority in the Secret
// never signs, because its key may be compromised, too.
func Rotate(ctx context.Context, secrets Secrets, now time.Time, overlap time.Duration) (Rotated, error) {
	next, err := newOwn(now, defaultLife)
	if err != nil {
		return Rotated{}, err
	}
	out := Rotated{Signs: now.Add(overlap), Ends: now.Add(2 * overlap)}
	for range rotateAttempts {
		data, version, err := secrets.Read(ctx)
		if err != nil {
			return Rotated{}, fmt.Errorf("read the authority: %w", err)
		}
		if len(data) == 0 {
			return Rotated{}, errNone
		}
		s, err := read(data)
		if err != nil {
			return Rotated{}, fmt.Errorf("the authority is damaged: %w", err)
		}
		if s.next != nil && bytes.Equal(s.next.certPEM, next.certPEM) {
			return out, nil
		}
		s.next, s.rotation = next, rotation{out.Signs, out.Ends}
		if err := secrets.Write(ctx, s.write(), version); err != nil && !errors.Is(err, ErrChanged) {
			return Rotated{}, fmt.Errorf("write the authority: %w", err)
		}
	}
	return Rotated{}, fmt.Errorf("%w: try again", ErrChanged)
}
