package picker

// rewrite draws, by weight, the model that replaces the body's model. extproc writes it into the
// body. This stage never rejects a request.
func rewrite(k *pick) {
	if k.rules != nil {
		k.drawn = k.rules.target(k.asked)
	}
}

func rewritten(r *Record) string {
	if r.Served == "" {
		return ""
	}
	return "model " + r.Model + " becomes " + r.Served
}
