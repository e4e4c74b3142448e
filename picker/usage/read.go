package usage

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"
)

// Query selects the rows of an Answer.
type Query struct {
	By    []string // columns (keyColumns) to group by; empty means one row for all
	Since time.Duration
}

// Check returns an error if the query is invalid.
func (q Query) Check() error {
	for i, column := range q.By {
		if !slices.Contains(keyColumns, column) {
			return fmt.Errorf("%q is no column: write some of owner, model, pool and hour", column)
		}
		if slices.Contains(q.By[:i], column) {
			return fmt.Errorf("%s is named twice", column)
		}
	}
	if q.Since <= 0 {
		return fmt.Errorf("%s is no time to look back: write a duration such as 24h", q.Since)
	}
	return nil
}

// Answer is the answer to a Query.
type Answer struct {
	// Since is the first hour with counts, in seconds since 1970; 0 without counts. If all counts
	// are in memory, it is the time of the first count.
	Since int64 `json:"since,omitempty"`
	From  int64 `json:"from"` // first hour of the rows, in seconds since 1970
	// Until is a time in seconds since 1970: the rows include every request that ended before. It
	// is 0 if no process runs.
	Until int64 `json:"until,omitempty"`
	// Shared means that other processes write to the same database.
	Shared bool `json:"shared,omitempty"`
	// Late is how long the oldest count has waited for the database, in seconds; 0 if none waits.
	// Problem is why counts wait, or why the database could not be read.
	Late    int64  `json:"late,omitempty"`
	Problem string `json:"problem,omitempty"`
	Rows    []Row  `json:"rows"`
}

// Read answers a query. The answer includes all counts of this process, even those that the
// database does not have yet.
func (k *Keeper) Read(ctx context.Context, q Query) Answer { return k.read(ctx, q, true) }

func (k *Keeper) read(ctx context.Context, q Query, flush bool) Answer {
	now := k.cfg.Now()
	from := now.Add(-q.Since).Unix()
	from -= ((from % hour) + hour) % hour
	out := Answer{From: from, Shared: k.cfg.URL != nil}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var err error
	if flush {
		err = k.applyAll(ctx)
	}
	k.apply.Lock()
	defer k.apply.Unlock()
	sums := rows{}
	if k.cfg.Folder != "" && k.database.exists() {
		list, first, readErr := k.database.read(ctx, q.By, from)
		out.Since = first
		for _, r := range list {
			sums[r.Key] = &r.Counts
		}
		if err == nil {
			err = withoutURL(readErr)
		}
	}
	waiting := k.pending(ctx, from)
	for _, r := range waiting {
		if out.Since == 0 || r.Hour < out.Since {
			out.Since = r.Hour
		}
		sums.add(r.Key.only(q.By), r.Counts)
	}
	if k.cfg.Folder == "" && out.Since > 0 {
		k.mu.Lock()
		out.Since = max(out.Since, k.first.Unix())
		k.mu.Unlock()
	}
	out.Rows = sums.sorted()
	if err != nil {
		out.Problem = err.Error()
		k.state.Lock()
		out.Late = int64(math.Ceil(k.lateness().Seconds()))
		k.state.Unlock()
	}
	return out
}

// pending returns this process's counts from an hour on that the database lacks. The caller holds
// k.apply.
func (k *Keeper) pending(ctx context.Context, from int64) (out []Row) {
	k.disk.Lock()
	defer k.disk.Unlock()
	var list []string
	if k.cfg.Folder != "" {
		list, _, _ = segments(k.journal.folder, "")
	}
	for _, path := range list {
		// If the process was killed between a segment's commit and its removal, the database
		// already has the segment.
		if b, err := readSegment(path); err == nil && !k.database.applied(ctx, b) {
			out = append(out, b.Rows...)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	out = append(out, k.held.sorted()...)
	return slices.DeleteFunc(out, func(r Row) bool { return r.Hour < from })
}

func (k Key) only(columns []string) (out Key) {
	for _, c := range columns {
		switch c {
		case "hour":
			out.Hour = k.Hour
		case "owner":
			out.Owner = k.Owner
		case "model":
			out.Model = k.Model
		case "pool":
			out.Pool = k.Pool
		}
	}
	return out
}

// Merge sums the answers of several processes with separate databases.
func Merge(answers []Answer) (out Answer) {
	sums := rows{}
	var problems []string
	for i, a := range answers {
		for _, r := range a.Rows {
			sums.add(r.Key, r.Counts)
		}
		if a.Since > 0 && (out.Since == 0 || a.Since < out.Since) {
			out.Since = a.Since
		}
		if i == 0 || a.From < out.From {
			out.From = a.From
		}
		if a.Until > 0 && (out.Until == 0 || a.Until < out.Until) {
			out.Until = a.Until
		}
		out.Late = max(out.Late, a.Late)
		if a.Problem != "" && !slices.Contains(problems, a.Problem) {
			problems = append(problems, a.Problem)
		}
	}
	out.Problem, out.Rows = strings.Join(problems, "; "), sums.sorted()
	return out
}

// ReadFolder answers a query from the files of a process that has ended. It changes no file.
func ReadFolder(ctx context.Context, folder string, q Query, now func() time.Time) (Answer, error) {
	k := New(Config{Folder: folder, Now: now, Log: slog.New(slog.DiscardHandler)})
	list, _, err := segments(k.journal.folder, "")
	if err != nil {
		return Answer{}, err
	}
	if !k.database.exists() && len(list) == 0 {
		return Answer{}, fs.ErrNotExist
	}
	defer k.database.close()
	return k.read(ctx, q, false), nil
}
