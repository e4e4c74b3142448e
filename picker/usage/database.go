package usage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

const (
	// An idle connection is closed after idleConnection, which frees SQLite's memory.
	idleConnection = 30 * time.Second
	rowsAtOnce     = 100
	maxFile        = 256 << 20 // in bytes, for a SQLite file
	// MaxRows bounds the rows of one Answer.
	MaxRows = 100_000
)

// SQLite and PostgreSQL have the same schema and statements.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS penstock_usage (hour BIGINT NOT NULL, owner TEXT NOT NULL, model TEXT NOT NULL,
pool TEXT NOT NULL, requests BIGINT NOT NULL, denied BIGINT NOT NULL, failed BIGINT NOT NULL,
estimated BIGINT NOT NULL, input BIGINT NOT NULL, cached BIGINT NOT NULL, output BIGINT NOT NULL,
gpu_seconds DOUBLE PRECISION NOT NULL, PRIMARY KEY (hour, owner, model, pool))`,
	`CREATE TABLE IF NOT EXISTS penstock_usage_applied (process TEXT NOT NULL, start TEXT NOT NULL,
sequence BIGINT NOT NULL, PRIMARY KEY (process, start))`,
}

var (
	keyColumns   = []string{"hour", "owner", "model", "pool"}
	countColumns = []string{"requests", "denied", "failed", "estimated", "input", "cached", "output", "gpu_seconds"}
)

type database struct {
	file string
	// url returns PostgreSQL's URL, which may change between calls; nil means SQLite.
	url  func() (string, error)
	used string
	db   *sql.DB
}

func (d *database) connect(ctx context.Context) (*sql.DB, error) {
	driver, source := "sqlite", ""
	if d.url == nil {
		f, err := os.OpenFile(d.file, os.O_RDWR|os.O_CREATE, 0o600) // SQLite's own mode is 0644
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		source = "file:" + (&url.URL{Path: d.file}).EscapedPath() + "?_pragma=busy_timeout(5000)&_txlock=immediate"
	} else {
		var err error
		if source, err = d.url(); err != nil {
			return nil, err
		}
		driver = "pgx"
	}
	if d.db != nil && d.used == source {
		return d.db, nil
	}
	d.close()
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, withoutURL(err)
	}
	db.SetMaxOpenConns(1)
	db.SetConnMaxIdleTime(idleConnection)
	if err := prepare(ctx, db); err != nil {
		return nil, errors.Join(withoutURL(err), db.Close())
	}
	d.db, d.used = db, source
	return db, nil
}

// prepare creates the tables, but only if they are missing: the database's user may lack the
// permission.
func prepare(ctx context.Context, db *sql.DB) error {
	if rows, err := db.QueryContext(ctx, "SELECT sequence FROM penstock_usage_applied LIMIT 1"); err == nil {
		return errors.Join(rows.Err(), rows.Close())
	}
	for _, statement := range schema {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// withoutURL removes the database's URL from an error: it may contain a password.
func withoutURL(err error) error {
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		return fmt.Errorf("the URL of the database is invalid: %w", parse.Err)
	}
	return err
}

func (d *database) close() {
	if d.db != nil {
		_ = d.db.Close()
		d.db = nil
	}
}

func (d *database) apply(ctx context.Context, b Batch) error {
	db, err := d.connect(ctx)
	if err != nil {
		return err
	}
	if d.url == nil {
		if b.Rows, err = shrink(ctx, db, b.Rows); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "INSERT INTO penstock_usage_applied (process, start, sequence) "+
		"VALUES ($1, $2, 0) ON CONFLICT (process, start) DO NOTHING", b.Process, b.Start); err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, "UPDATE penstock_usage_applied SET sequence = $1 "+
		"WHERE process = $2 AND start = $3 AND sequence < $4", b.Sequence, b.Process, b.Start, b.Sequence)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err // no row means that the batch was applied earlier
	}
	// b.Rows is sorted, so all transactions lock rows in the same order, without deadlocks.
	for part := range slices.Chunk(b.Rows, rowsAtOnce) {
		statement, values := upsert(part)
		if _, err := tx.ExecContext(ctx, statement, values...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func upsert(list []Row) (statement string, values []any) {
	var text strings.Builder
	columns := slices.Concat(keyColumns, countColumns)
	fmt.Fprintf(&text, "INSERT INTO penstock_usage (%s) VALUES ", strings.Join(columns, ", "))
	for i := range list {
		for n := range columns {
			switch {
			case n > 0:
				text.WriteString(", ")
			case i > 0:
				text.WriteString(", (")
			default:
				text.WriteString("(")
			}
			fmt.Fprintf(&text, "$%d", i*len(columns)+n+1)
		}
		text.WriteString(")")
		k, c := list[i].Key, list[i].Counts
		values = append(values, k.Hour, clean(k.Owner), clean(k.Model), clean(k.Pool), c.Requests, c.Denied, c.Failed,
			c.Estimated, c.Input, c.Cached, c.Output, c.GPUSeconds)
	}
	fmt.Fprintf(&text, " ON CONFLICT (%s) DO UPDATE SET ", strings.Join(keyColumns, ", "))
	for i, column := range countColumns {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%[1]s = penstock_usage.%[1]s + excluded.%[1]s", column)
	}
	return text.String(), values
}

// shrink deletes the oldest hours of a SQLite file that exceeds sizeLimit. If only one hour is
// left, shrink sums list to rows with the names Other, so that the file hardly grows.
func shrink(ctx context.Context, db *sql.DB, list []Row) ([]Row, error) {
	var pages, free, size, hours int64
	for _, pragma := range []struct {
		name string
		to   *int64
	}{{"page_count", &pages}, {"freelist_count", &free}, {"page_size", &size}} {
		if err := db.QueryRowContext(ctx, "PRAGMA "+pragma.name).Scan(pragma.to); err != nil {
			return nil, err
		}
	}
	if (pages-free)*size < sizeLimit {
		return list, nil
	}
	if err := db.QueryRowContext(ctx, "SELECT COUNT(DISTINCT hour) FROM penstock_usage").Scan(&hours); err != nil {
		return nil, err
	}
	if hours <= 1 {
		sums := rows{}
		for _, r := range list {
			sums.add(Key{Hour: r.Hour, Owner: Other, Model: Other, Pool: Other}, r.Counts)
		}
		return sums.sorted(), nil
	}
	_, err := db.ExecContext(ctx, "DELETE FROM penstock_usage WHERE hour IN (SELECT DISTINCT hour FROM penstock_usage "+
		"ORDER BY hour LIMIT $1)", max(hours/10, 1))
	return list, err
}

var sizeLimit int64 = maxFile

// read returns the rows from an hour on, grouped by columns. first is the database's first hour, or
// 0 without rows.
func (d *database) read(ctx context.Context, by []string, from int64) (out []Row, first int64, err error) {
	db, err := d.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	var begin sql.NullInt64
	if err := db.QueryRowContext(ctx, "SELECT MIN(hour) FROM penstock_usage").Scan(&begin); err != nil {
		return nil, 0, err
	}
	columns := slices.Clone(by)
	for _, c := range countColumns {
		kind := "BIGINT"
		if c == "gpu_seconds" {
			kind = "DOUBLE PRECISION"
		}
		columns = append(columns, fmt.Sprintf("CAST(SUM(%s) AS %s)", c, kind))
	}
	statement := "SELECT " + strings.Join(columns, ", ") + " FROM penstock_usage WHERE hour >= $1"
	if len(by) > 0 {
		statement += " GROUP BY " + strings.Join(by, ", ")
	} else {
		statement += " HAVING COUNT(*) > 0"
	}
	found, err := db.QueryContext(ctx, statement+fmt.Sprintf(" LIMIT %d", MaxRows), from)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		var r Row
		keys := map[string]any{"hour": &r.Hour, "owner": &r.Owner, "model": &r.Model, "pool": &r.Pool}
		into := make([]any, 0, len(columns))
		for _, name := range by {
			into = append(into, keys[name])
		}
		into = append(into, &r.Requests, &r.Denied, &r.Failed, &r.Estimated, &r.Input, &r.Cached, &r.Output,
			&r.GPUSeconds)
		if err := found.Scan(into...); err != nil {
			return nil, 0, err
		}
		out = append(out, r)
	}
	return out, begin.Int64, found.Err()
}

func (d *database) applied(ctx context.Context, b Batch) bool {
	if d.db == nil { // there is no database, or the connection failed
		return false
	}
	var sequence int64
	err := d.db.QueryRowContext(ctx, "SELECT sequence FROM penstock_usage_applied WHERE process = $1 AND start = $2",
		b.Process, b.Start).Scan(&sequence)
	return err == nil && sequence >= b.Sequence
}

func (d *database) exists() bool {
	if d.url != nil {
		return true
	}
	_, err := os.Stat(d.file)
	return !errors.Is(err, fs.ErrNotExist)
}
