package authority

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Keys of the Secret's data while an authority is replaced on purpose. The values are times (RFC
// 3339).
const (
	rotationSigns = "rotation.signs" // when the next authority signs
	rotationEnds  = "rotation.ends"  // when the one before is not trusted any more
)

// rotation is an authority's replacement on purpose; zero: there is none.
type rotation struct {
	signs time.Time // zero: the next authority signs already
	ends  time.Time
}

func readRotation(data map[string][]byte) (r rotation) {
	// A text that is no time counts as none: the next authority signs as without a rotation.
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

// due reports whether the next authority signs from now on.
func (r rotation) due(now time.Time) bool { return !r.signs.IsZero() && !now.Before(r.signs) }

// over reports whether the authority before is not trusted any more.
func (r rotation) over(now time.Time) bool {
	return r.signs.IsZero() && !r.ends.IsZero() && !now.Before(r.ends)
}

// signing returns the rotation once the next authority signs. The one before is trusted for as long
// as was planned, also if no process ran in time.
func (r rotation) signing(now time.Time) rotation {
	if r.signs.IsZero() {
		return rotation{}
	}
	return rotation{ends: now.Add(r.ends.Sub(r.signs))}
}

// Rotated is a rotation that has begun.
type Rotated struct {
	Signs time.Time // the new authority signs from then on; until then it is published
	Ends  time.Time // the one before is trusted until then
}

// errNone is the error of Rotate where there is no authority.
var errNone = errors.New("there is no authority: penstock makes it when it first runs")

// ErrNone reports whether Rotate failed because there is no authority.
func ErrNone(err error) bool { return errors.Is(err, errNone) }

// rotateAttempts bounds how often Rotate writes again what a process has replaced meanwhile.
const rotateAttempts = 10

// Rotate replaces an authority before its time, because its key may be known to others. The
// processes that use it publish the new one with their next read, which takes seconds. After the
// overlap it signs, and after another one the authority before is not trusted any more. A next
// authority that is in the Secret already never signs: its key was there, too.
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
			return out, nil // as it was written
		}
		s.next, s.rotation = next, rotation{out.Signs, out.Ends}
		if err := secrets.Write(ctx, s.write(), version); err != nil && !errors.Is(err, ErrChanged) {
			return Rotated{}, fmt.Errorf("write the authority: %w", err)
		}
	}
	return Rotated{}, fmt.Errorf("%w: try again", ErrChanged)
}
