package modelserver

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	maxInputs        = 2048 // per request: OpenAI's limit
	defaultDimension = 16
	maxDimension     = 4096
)

// pooled is an embeddings or rerank request, without generated text. Each input takes one slot of
// the engine.
type pooled struct {
	model, lora, salt string
	inputs            [][]string
}

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64
}

type ranked struct {
	Index    int `json:"index"`
	Document struct {
		Text string `json:"text"`
	} `json:"document"`
	Score float64 `json:"relevance_score"`
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var f fields
	p, dimension := pooled{}, defaultDimension
	err := s.decode(w, r, &f)
	if err == nil {
		p.inputs, err = f.embeddingInputs()
	}
	if err == nil && f.Dimensions != nil {
		if dimension = *f.Dimensions; dimension < 1 || dimension > maxDimension {
			err = badRequest("dimensions is %d; it must be between 1 and %d", dimension, maxDimension)
		}
	}
	if err == nil && f.EncodingFormat != "" && f.EncodingFormat != "float" && f.EncodingFormat != "base64" {
		err = badRequest("encoding_format is %q; it must be float or base64", f.EncodingFormat)
	}
	s.pool(w, r, f, p, err, func(number uint64, model string, tokens usage) any {
		data := make([]embedding, len(p.inputs))
		for i, words := range p.inputs {
			var vector any = embed(words, dimension)
			if f.EncodingFormat == "base64" {
				var raw bytes.Buffer
				_ = binary.Write(&raw, binary.LittleEndian, vector)
				vector = base64.StdEncoding.EncodeToString(raw.Bytes())
			}
			data[i] = embedding{"embedding", i, vector}
		}
		return map[string]any{
			"id": fmt.Sprintf("embd-%s-%d", s.cfg.Name, number), "object": "list", "created": time.Now().Unix(),
			"model": model, "data": data, "usage": tokens,
		}
	})
}

func (s *Server) rerank(w http.ResponseWriter, r *http.Request) {
	var f fields
	var documents []string
	p := pooled{}
	err := s.decode(w, r, &f)
	if err == nil {
		documents, err = f.documents()
	}
	query := strings.Fields(f.Query)
	for _, text := range documents {
		// As in vLLM's cross-encoders, the model reads the query in front of each document.
		p.inputs = append(p.inputs, append(slices.Clone(query), strings.Fields(text)...))
	}
	s.pool(w, r, f, p, err, func(number uint64, model string, tokens usage) any {
		results := make([]ranked, len(documents))
		for i, text := range documents {
			results[i].Index, results[i].Document.Text, results[i].Score = i, text,
				share(query, p.inputs[i][len(query):])
		}
		slices.SortStableFunc(results, func(a, b ranked) int { return cmp.Compare(b.Score, a.Score) })
		if f.TopN > 0 {
			results = results[:min(f.TopN, len(results))]
		}
		return map[string]any{"id": fmt.Sprintf("rerank-%s-%d", s.cfg.Name, number), "model": model, "usage": tokens,
			"results": results}
	})
}

func (s *Server) pool(w http.ResponseWriter, r *http.Request, f fields, p pooled, err error,
	answer func(number uint64, model string, tokens usage) any) {
	if err == nil {
		p.salt = f.CacheSalt
		if p.model, p.lora, err = s.servedModel(f.Model); err == nil {
			err = s.fit(p.inputs)
		}
	}
	number, err := s.count(err)
	if err != nil {
		failWith(w, err, writeError)
		return
	}
	// As in vLLM, each input is a request of the engine.
	details := make([]*promptDetails, len(p.inputs))
	group, ctx := errgroup.WithContext(r.Context())
	for i, words := range p.inputs {
		group.Go(func() error {
			run, err := s.enter(ctx, p.lora, p.salt, tokenIDs(words), 0)
			if err != nil {
				return err
			}
			defer run.leave()
			details[i] = run.cached
			s.ended(0, "stop")
			return nil
		})
	}
	if group.Wait() != nil {
		return
	}
	var tokens usage
	for i, words := range p.inputs {
		tokens.PromptTokens += len(words)
		if details[i] != nil {
			if tokens.Details == nil {
				tokens.Details = &promptDetails{}
			}
			tokens.Details.CachedTokens += details[i].CachedTokens
		}
	}
	tokens.TotalTokens = tokens.PromptTokens
	writeJSON(w, answer(number, p.model, tokens))
}

func (s *Server) fit(inputs [][]string) error {
	if len(inputs) == 0 || len(inputs) > maxInputs {
		return badRequest("the request has %d inputs; it must have between 1 and %d", len(inputs), maxInputs)
	}
	for i, words := range inputs {
		if room := s.engine.blocks * blockSize; len(words) > room {
			return badRequest("input %d of %d tokens does not fit into a context of %d tokens", i, len(words), room)
		}
	}
	return nil
}

// embeddingInputs returns the words of each input. The field input is a string, a list of token
// IDs, a list of strings, or a list of lists of token IDs. A chat's messages may replace it.
func (f *fields) embeddingInputs() ([][]string, error) {
	if len(f.Messages) > 0 {
		_, words, err := f.chatPrompt()
		return [][]string{words}, err
	}
	var list []json.RawMessage
	if json.Unmarshal(f.Input, &list) != nil || len(list) == 0 || list[0][0] != '"' && list[0][0] != '[' {
		_, words, err := promptText("input", f.Input)
		return [][]string{words}, err
	}
	inputs := make([][]string, len(list))
	for i, raw := range list {
		var err error
		if _, inputs[i], err = promptText(fmt.Sprintf("input[%d]", i), raw); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

func (f *fields) documents() ([]string, error) {
	if f.Query == "" {
		return nil, badRequest("query is missing")
	}
	texts := make([]string, len(f.Documents))
	for i, raw := range f.Documents {
		var object struct{ Text *string }
		if json.Unmarshal(raw, &object.Text) != nil && json.Unmarshal(raw, &object) != nil || object.Text == nil {
			return nil, badRequest("documents[%d] is neither a string nor an object with a text", i)
		}
		texts[i] = *object.Text
	}
	return texts, nil
}

// embed returns the sum of pseudo-random vectors of the words, scaled to length 1.
func embed(words []string, dimension int) []float32 {
	sum := make([]float64, dimension)
	for _, word := range words {
		h := fnv.New64a()
		_, _ = h.Write([]byte(word))
		x := h.Sum64()
		for i := range sum {
			x = x*6364136223846793005 + 1442695040888963407 // Knuth's generator: the same numbers in each process
			sum[i] += float64(int64(x)) / (1 << 63)
		}
	}
	length := 0.0
	for _, v := range sum {
		length += v * v
	}
	out := make([]float32, dimension)
	for i, v := range sum {
		out[i] = float32(v / math.Sqrt(max(length, math.SmallestNonzeroFloat32)))
	}
	return out
}

func share(words, text []string) float64 {
	has := map[string]bool{}
	for _, word := range text {
		has[word] = true
	}
	found := 0
	for _, word := range words {
		if has[word] {
			found++
		}
	}
	return float64(found) / float64(max(len(words), 1))
}
