//! Every measured figure, one ruler.
