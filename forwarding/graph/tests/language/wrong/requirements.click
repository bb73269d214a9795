require(library missing.click);
require(library);
require(package a b);
require something;
elementclass A { require(library shared.click) }
require(library broken.click);
